"""The launcher with real processes: what the user sees is the program's own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from mlxdiag import recording
from mlxdiag.errors import UsageError
from mlxdiag.inspect.inspector import inspect_trace
from tests.record import programs
from tests.record.programs import ANSWER, FORWARDS, PLAIN, PROMPT

PYTHON = sys.executable


def test_the_program_prints_and_returns_what_it_does_alone(tmp_path: Path) -> None:
    text = PLAIN + "print(sys.argv[1:], file=sys.stderr)\nsys.exit(7)\n"
    alone = programs.bare(tmp_path, text, "-x", "--output", "y")
    seen = programs.recorded(tmp_path, text, arguments=("-x", "--output", "y"))
    assert (seen.returncode, seen.stdout) == (alone.returncode, alone.stdout) == (7, alone.stdout)
    assert seen.stderr.startswith(alone.stderr)
    assert seen.stderr.removeprefix(alone.stderr).count("\n") == 1
    trace = programs.trace_of(tmp_path)
    assert trace.entries[-1].exit == 7
    report = inspect_trace(trace)
    assert report.findings == []
    assert report.summary.not_observed == 0


def test_every_forward_and_every_token_is_in_the_trace(tmp_path: Path) -> None:
    ran = programs.recorded(tmp_path, PLAIN, "--tokens")
    trace = programs.trace_of(tmp_path)
    steps = inspect_trace(trace).summary.steps
    assert sum(entry.attention is not None for entry in trace.entries) == FORWARDS <= steps
    assert f"recorded {steps} steps of 1 sequence in" in ran.stderr
    rows = [row for entry in trace.entries for row in entry.rows or ()]
    assert sum(row.tokens or 0 for row in rows) == PROMPT + ANSWER
    told = [ident for row in rows for ident in row.ids or ()]
    assert told == [int(line) for line in ran.stdout.split()]
    assert {row.total for row in rows} == {None, PROMPT}
    assert rows[-1].finish == "length"


def test_without_tokens_no_id_of_the_program_can_be_read(tmp_path: Path) -> None:
    ran = programs.recorded(tmp_path, PLAIN)
    trace = programs.trace_of(tmp_path)
    told = [ident for entry in trace.entries for row in entry.rows or () for ident in row.ids or ()]
    real = [int(line) for line in ran.stdout.split()]
    assert len(told) == len(real) == ANSWER
    assert told != real
    same = {
        (a == b) == (c == d) for a, c in zip(real, told, strict=True) for b, d in zip(real, told, strict=True)
    }
    assert same == {True}, "equal ids stay equal, different ones different"


def test_an_existing_trace_is_kept_unless_forced(tmp_path: Path) -> None:
    (tmp_path / "t.yaml").write_text("mine")
    refused = programs.record(tmp_path, [PYTHON, "-c", "print(1)"])
    assert (refused.returncode, refused.stdout) == (2, "")
    assert (tmp_path / "t.yaml").read_text() == "mine"
    programs.recorded(tmp_path, PLAIN, "--force")
    assert programs.forwards(programs.trace_of(tmp_path)) == FORWARDS


@pytest.mark.parametrize(
    ("program", "said"),
    [
        (["true"], "start-up hook was never run"),
        ([PYTHON, "-I", "-c", "pass"], "start-up hook was never run"),
        ([PYTHON, "-S", "-c", "pass"], "start-up hook was never run"),
        ([PYTHON, "-c", "pass"], "never imported mlx_lm"),
        ([PYTHON, "-c", "import mlx_lm.models.cache"], "ran no model"),
    ],
)
def test_where_nothing_is_recorded_it_says_why_and_leaves_no_file(
    tmp_path: Path, program: list[str], said: str
) -> None:
    ran = programs.record(tmp_path, program)
    assert ran.returncode == 0
    assert said in ran.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_program_that_never_imports_mlx_is_not_made_to(tmp_path: Path) -> None:
    text = "import sys; print([m for m in sys.modules if m.split('.')[0] in ('mlx', 'mlx_lm', 'msgspec')])"
    assert programs.record(tmp_path, [PYTHON, "-c", text]).stdout == "[]\n"


def test_a_program_that_cannot_be_started_is_a_usage_error(tmp_path: Path) -> None:
    ran = programs.record(tmp_path, ["no-such-program-anywhere"])
    assert ran.returncode == 2
    assert "no such program" in ran.stderr


def test_a_script_that_is_no_program_by_itself(tmp_path: Path) -> None:
    (tmp_path / "gen.py").write_text("print(1)\n")
    for name in ("gen.py", "./gen.py"):
        ran = programs.record(tmp_path, [name, "--fast"])
        assert ran.returncode == 2
        assert f"-- python {name} --fast" in ran.stderr


def test_a_signal_to_the_recorder_reaches_the_program(tmp_path: Path) -> None:
    text = "import signal, sys, time\nsignal.signal(signal.SIGTERM, lambda *a: sys.exit(5))\n"
    text += "print('up', flush=True)\ntime.sleep(60)\n"
    command = [str(programs.SCRIPT), "record", "--", PYTHON, str(programs.written(tmp_path, text))]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"up\n"
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=30) == 5


def test_a_sitecustomize_that_was_there_before_still_runs(tmp_path: Path) -> None:
    site = tmp_path / "site"
    site.mkdir()
    (site / "sitecustomize.py").write_text("import builtins\nbuiltins.greeting = 'hello'\n")
    text = "import sitecustomize; print(greeting, sitecustomize.__file__)"
    ran = programs.record(tmp_path, [PYTHON, "-c", text], PYTHONPATH=str(site))
    assert ran.stdout == f"hello {site / 'sitecustomize.py'}\n"


def test_children_write_beside_the_trace(tmp_path: Path) -> None:
    programs.written(tmp_path, PLAIN, "child.py")
    text = "import subprocess, sys\nsubprocess.run([sys.executable, 'child.py'], check=True)\n" + PLAIN
    programs.recorded(tmp_path, text)
    names = sorted(path.name for path in tmp_path.glob("*.yaml"))
    assert len(names) == 2
    assert names[1] == "t.yaml"
    for name in names:
        trace = programs.trace_of(tmp_path, name)
        assert programs.forwards(trace) == FORWARDS
        assert inspect_trace(trace).findings == []


def test_a_fork_goes_on_in_a_file_of_its_own(tmp_path: Path) -> None:
    text = programs.MODEL + (
        "import multiprocessing\n"
        "def work():\n    model(mx.array([[1, 2, 3]]))\n"
        "work()\n"
        "child = multiprocessing.get_context('fork').Process(target=work)\nchild.start()\nchild.join()\n"
        "print(child.exitcode)\nwork()\n"
    )
    ran = programs.recorded(tmp_path, text)
    assert ran.stdout == "0\n"
    traces = {path.name: programs.trace_of(tmp_path, path.name) for path in tmp_path.glob("*.yaml")}
    assert sorted(programs.forwards(trace) for trace in traces.values()) == [1, 2]
    assert programs.forwards(traces["t.yaml"]) == 2
    assert all(trace.entries[-1].phase == "end" for trace in traces.values())
    assert all(inspect_trace(trace).findings == [] for trace in traces.values())


def test_a_fork_leaves_what_its_parent_has_not_read_of_its_masks_to_the_parent(tmp_path: Path) -> None:
    text = programs.MODEL + (
        "import multiprocessing\n"
        "def work(n):\n    mx.eval(model(mx.arange(n)[None]))\n"
        "work(20)\n"
        "child = multiprocessing.get_context('fork').Process(target=int)\nchild.start()\nchild.join()\n"
        "print(child.exitcode)\n"
    )
    ran = programs.recorded(tmp_path, text, "--level", "digest")
    assert ran.stdout == "0\n"
    assert [path.name for path in tmp_path.glob("*.yaml")] == ["t.yaml"]
    (note,) = [entry for entry in programs.trace_of(tmp_path).entries if entry.phase == "note"]
    assert (note.step, [call.q for call in note.attention or ()]) == (0, [20])


def test_threads_are_told_apart(tmp_path: Path) -> None:
    text = programs.MODEL + (
        "from concurrent.futures import ThreadPoolExecutor\n"
        "def answer(start):\n"
        "    stream = mx.new_thread_local_stream(mx.default_device())\n"
        "    prompt = mx.arange(start, start + 20)\n"
        "    return [t for t, _ in generate_step(prompt, model, stream, max_tokens=8)]\n"
        "with ThreadPoolExecutor(3) as pool:\n    answers = list(pool.map(answer, (5, 30, 60)))\n"
        "print(len(answers))\n"
    )
    ran = programs.recorded(tmp_path, text)
    assert ran.stdout == "3\n", ran.stderr
    trace = programs.trace_of(tmp_path)
    fed: dict[str | None, int] = {}
    for entry in trace.entries:
        for row in entry.rows or ():
            fed[row.seq] = fed.get(row.seq, 0) + (row.tokens or 0)
    assert sorted(fed.values()) == [28, 28, 28]
    assert inspect_trace(trace).findings == []


def test_pytest_is_a_program_like_any_other(tmp_path: Path) -> None:
    body = PLAIN.replace("\n", "\n    ")
    programs.written(tmp_path, f"def test_it():\n    {body}\n    assert token >= 0\n", "test_it.py")
    ran = programs.record(tmp_path, [PYTHON, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_it.py"])
    assert ran.returncode == 0, ran.stdout
    assert programs.forwards(programs.trace_of(tmp_path)) == FORWARDS


def test_the_environment_alone_makes_a_program_record_itself(tmp_path: Path) -> None:
    told = programs.run(tmp_path, [str(programs.SCRIPT), "record", "-o", "t.yaml", "--environment"])
    variables = dict(line.split("=", 1) for line in told.stdout.splitlines())
    ran = programs.run(tmp_path, [PYTHON, str(programs.written(tmp_path, PLAIN))], **variables)
    assert (ran.returncode, ran.stderr) == (0, "")
    trace = programs.trace_of(tmp_path)
    assert programs.forwards(trace) == FORWARDS
    assert trace.entries[-1].phase == "end"
    assert inspect_trace(trace).findings == []


def test_sigusr1_freezes_a_copy_of_a_ring(tmp_path: Path) -> None:
    text = PLAIN + "print('done', flush=True)\nsys.stdin.readline()\n"
    command = [str(programs.SCRIPT), "record", "-o", "t.yaml", "--ring", "4", "--"]
    command += [PYTHON, str(programs.written(tmp_path, text))]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(command, cwd=tmp_path, env=programs.environment(), text=True, **pipes) as process:  # type: ignore[call-overload]
        while process.stdout.readline() != "done\n":
            pass
        os.kill(process.pid, signal.SIGUSR1)
        frozen = tmp_path / "t.frozen-1.yaml"
        until = time.monotonic() + 30
        while not frozen.exists() and time.monotonic() < until:
            time.sleep(0.05)
        process.communicate("\n", timeout=60)
        assert process.returncode == 0
    copy, whole = programs.trace_of(tmp_path, frozen.name), programs.trace_of(tmp_path)
    assert 4 <= len(copy.entries) - 1 <= 8
    assert copy.entries == whole.entries[: len(copy.entries)]


def test_what_is_no_file_is_never_replaced(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe.yaml"
    os.mkfifo(pipe)
    command = [str(programs.SCRIPT), "record", "--force", "-o", str(pipe), "--", "true"]
    ran = programs.run(tmp_path, command)
    assert (ran.returncode, "is no file" in ran.stderr) == (2, True)
    with pytest.raises(UsageError, match="is no file"), recording(pipe, force=True):
        pass
    assert pipe.is_fifo()
