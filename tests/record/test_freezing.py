"""A ring without a launcher: frozen by a signal, and read after a sudden end. Real processes."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from mlxdiag.record.launcher import variables
from mlxdiag.record.options import Options
from mlxdiag.traces.reader import read
from tests.record import programs

RING = 3
SELF = "import os, signal; os.kill(os.getpid(), signal.SIGUSR1)"
KILL = "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"
LIBRARY = """
import mlxdiag
with mlxdiag.recording("t.yaml", ring=3):
    exec(GENERATE)
"""


def alone(folder: Path, text: str) -> Any:
    """Run a program that the environment makes record itself."""
    options = Options(folder / "t.yaml", ring=RING)
    program = [sys.executable, str(programs.written(folder, text))]
    return programs.run(folder, program, **variables(options, os.environ))


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.glob("*.yaml") if ".MD" not in path.name)


def test_a_signal_freezes_a_copy_and_the_program_goes_on(tmp_path: Path) -> None:
    ran = alone(tmp_path, programs.ending(SELF))
    assert (ran.returncode, len(ran.stdout.split())) == (0, programs.ANSWER)
    assert names(tmp_path) == ["t.frozen-1.yaml", "t.yaml"]
    frozen = [entry.step or 0 for entry in read(tmp_path / "t.frozen-1.yaml").entries]
    assert RING <= max(frozen) < programs.FORWARDS - 1


def test_so_it_does_in_a_library_recording(tmp_path: Path) -> None:
    after = f"def after(number):\n    if number == 4:\n        {SELF}\n"
    text = f"GENERATE = {programs.GENERATE!r}\n" + programs.MODEL + after + LIBRARY
    assert programs.bare(tmp_path, text).returncode == 0
    assert names(tmp_path) == ["t.frozen-1.yaml", "t.yaml"]


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_handler_of_the_programs_own_is_left_alone(tmp_path: Path, when: str) -> None:
    own = "import signal\nsignal.signal(signal.SIGUSR1, lambda *_: print('mine', flush=True))\n"
    text = programs.ending(SELF)
    ran = alone(tmp_path, own + text if when == "before" else text.replace("def after", own + "def after"))
    assert ran.stdout.split().count("mine") == 1
    assert names(tmp_path) == ["t.yaml"]


def test_what_nobody_joined_is_read_all_the_same(tmp_path: Path) -> None:
    ran = alone(tmp_path, programs.ending(KILL))
    assert ran.returncode == -signal.SIGKILL
    assert names(tmp_path) == ["t.ring-0.yaml", "t.ring-1.yaml"]
    trace = read(tmp_path / "t.yaml")
    steps = [entry.step for entry in trace.entries if entry.phase != "model"]
    assert RING <= len(steps) <= 2 * RING
    assert steps[-1] == 3 + 1 + 5 - 1, "the forward that was under way when the fifth token was out"
    for command in ("inspect", "replay"):
        judged = programs.run(tmp_path, [str(programs.SCRIPT), command, "t.yaml"])
        assert "read from its two segments" in judged.stderr
        assert judged.returncode in (0, 1), judged.stderr


def test_without_segments_a_missing_trace_is_missing(tmp_path: Path) -> None:
    judged = programs.run(tmp_path, [str(programs.SCRIPT), "inspect", "t.yaml"])
    assert (judged.returncode, "no such file" in judged.stderr) == (3, True)
