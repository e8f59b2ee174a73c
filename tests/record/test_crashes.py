"""Whatever ends a program, its trace is readable up to the step that it died in. Real processes."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path

import pytest

from mlxdiag.inspect.inspector import inspect_trace
from mlxdiag.traces.types import Trace
from tests.record import programs
from tests.record.programs import CHUNK, FORWARDS, ending

KILL = "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"
DIED = 3 + 1 + 5
"""Forwards when the fifth token is out: the prompt's three pieces, its last token, and one forward ahead."""


def codes(trace: Trace) -> list[str]:
    return [finding.code for finding in inspect_trace(trace).findings]


@pytest.mark.parametrize(
    ("action", "number", "found"),
    [
        # Whoever kills a program from outside need not have found it at fault.
        (KILL, signal.SIGKILL, []),
        ("import os; os.abort()", signal.SIGABRT, ["MD902"]),
        ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", signal.SIGSEGV, ["MD902"]),
    ],
)
def test_a_fatal_signal_leaves_every_step(tmp_path: Path, action: str, number: int, found: list[str]) -> None:
    ran = programs.recorded(tmp_path, ending(action))
    assert ran.returncode == 128 + number
    assert len(ran.stdout.split()) == 5
    trace = programs.trace_of(tmp_path)
    assert not trace.truncated
    assert programs.forwards(trace) == DIED
    assert trace.entries[-1].exit == 128 + number
    assert codes(trace) == found


def test_the_step_is_on_disk_before_it_is_evaluated(tmp_path: Path) -> None:
    # The forward of 3 tokens is built and never evaluated.
    text = (
        programs.MODEL
        + "model(mx.array([[1, 2, 3]]))\nimport os, signal\nos.kill(os.getpid(), signal.SIGKILL)\n"
    )
    programs.recorded(tmp_path, text)
    assert programs.forwards(programs.trace_of(tmp_path)) == 1


def test_the_trace_survives_its_launcher(tmp_path: Path) -> None:
    text = ending(
        "import os, signal; os.kill(os.getppid(), signal.SIGKILL); os.kill(os.getpid(), signal.SIGKILL)"
    )
    ran = programs.recorded(tmp_path, text)
    assert ran.returncode == -signal.SIGKILL
    trace = programs.trace_of(tmp_path)
    assert programs.forwards(trace) == DIED
    assert codes(trace) == ["MD902"]


FAULTY = (
    programs.MODEL
    + f"""
fed = []
def mask(h, cache=None, **kwargs):
    # The second piece of the prompt gets the mask of the first.
    return mx.ones(({CHUNK}, {CHUNK}), dtype=mx.bool_)
gemma3_text.create_attention_mask = mask
after = lambda number: None
"""
    + programs.GENERATE
)


def test_an_exception_inside_graph_building_is_written_and_goes_on_unchanged(tmp_path: Path) -> None:
    alone = programs.bare(tmp_path, FAULTY)
    ran = programs.recorded(tmp_path, FAULTY)
    assert ran.returncode == alone.returncode == 1
    last = alone.stderr.strip().splitlines()[-1]
    assert last in ran.stderr, "the program's own error, word for word"
    trace = programs.trace_of(tmp_path)
    failed = [entry for entry in trace.entries if entry.error is not None]
    assert [entry.step for entry in failed] == [1]
    assert failed[0].error is not None
    assert last.endswith((failed[0].error.text or "?").partition(": ")[2])
    assert failed[0].attention is not None
    assert failed[0].attention[0].mask == (CHUNK, CHUNK)
    assert failed[0].attention[0].k == 15 + CHUNK
    assert "MD901" in codes(trace)
    assert trace.entries[-1].exit == 1


def test_a_full_disk_ends_the_recording_and_nothing_else(tmp_path: Path) -> None:
    text = "import resource\nresource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))\n" + programs.PLAIN
    alone = programs.bare(tmp_path, text)
    ran = programs.recorded(tmp_path, text)
    assert (ran.returncode, ran.stdout) == (0, alone.stdout)
    assert ran.stderr.count("recording stopped, the program goes on") == 1
    assert (tmp_path / "t.yaml").stat().st_size <= 4096
    trace = programs.trace_of(tmp_path)
    assert 3 < programs.forwards(trace) < FORWARDS


def test_a_small_file_system_that_fills_up(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=4k", "tmpfs", str(disk)], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("a file system can be mounted by root only")
    try:
        programs.written(tmp_path, programs.PLAIN)
        command = [str(programs.SCRIPT), "record", "-o", "disk/t.yaml", "--"]
        ran = programs.run(tmp_path, [*command, programs.sys.executable, "program.py"])
        assert ran.returncode == 0
        assert len(ran.stdout.split()) == programs.ANSWER
        assert ran.stderr.count("recording stopped, the program goes on") == 1
        assert 3 < programs.forwards(programs.trace_of(disk)) < FORWARDS
    finally:
        subprocess.run(["umount", str(disk)], check=True)


def test_a_fault_of_the_recorder_is_said_once_and_the_program_goes_on(tmp_path: Path) -> None:
    broken = "import mlxdiag.record.forwards as r\ndef broken(*a): raise KeyError('planted')\n"
    text = (
        programs.MODEL
        + broken
        + ("def after(number):\n    if number == 4:\n        r.calls_of = broken\n")
        + programs.GENERATE
    )
    alone = programs.bare(tmp_path, text)
    ran = programs.recorded(tmp_path, text)
    assert (ran.returncode, ran.stdout) == (0, alone.stdout)
    assert ran.stderr.count("recording stopped, the program goes on: KeyError: 'planted'") == 1
    assert programs.forwards(programs.trace_of(tmp_path)) == DIED


def test_a_fault_of_the_probe_is_said_once_and_the_program_goes_on(tmp_path: Path) -> None:
    broken = (
        "import mlxdiag.models.mlx.probe_shapes as c\n"
        "class Broken:\n    def __contains__(self, _): raise KeyError('planted')\n"
    )
    text = (
        programs.MODEL
        + broken
        + ("def after(number):\n    if number == 4:\n        c.SEQUENCES = Broken()\n")
        + programs.GENERATE
    )
    alone = programs.bare(tmp_path, text)
    ran = programs.recorded(tmp_path, text)
    assert (ran.returncode, ran.stdout) == (0, alone.stdout)
    assert ran.stderr.count("recording stopped, the program goes on: KeyError: 'planted'") == 1
    assert programs.forwards(programs.trace_of(tmp_path)) == DIED


@pytest.mark.parametrize("action", ["pass", KILL])
def test_a_ring_keeps_the_last_steps(tmp_path: Path, action: str) -> None:
    programs.recorded(tmp_path, ending(action), "--ring", "3", "--tokens")
    assert [path.name for path in tmp_path.glob("*.yaml") if "MD" not in path.name] == ["t.yaml"]
    trace = programs.trace_of(tmp_path)
    last = FORWARDS if action == "pass" else DIED
    steps = [entry.step for entry in trace.entries if entry.phase in ("decode", "chunk", "prefill")]
    assert 3 <= len(steps) <= 6
    assert steps == list(range(last - len(steps), last))
    assert trace.entries[0].phase == "model"
    assert codes(trace) == []
