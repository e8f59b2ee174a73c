"""What torchrun's ranks leave behind: nothing, whether they hang, or whoever started them is gone."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from mlxdiag.audit.distributed.distributed import audit_distributed
from mlxdiag.audit.distributed.told import TENSOR
from mlxdiag.audit.distributed.torchrun.launch import TorchrunLaunch
from tests.audit.distributed.processes import runs

SILENT = """
import os, pathlib, subprocess, sys, time
from mlxdiag.audit.distributed.rank import end_with_parent
from mlxdiag.audit.distributed.told import Told
import msgspec
end_with_parent()
folder, rank = pathlib.Path(sys.argv[1]), os.environ["RANK"]
(folder / f"{rank}.pid").write_text(str(os.getpid()))
child = subprocess.Popen(["sleep", "60"])
with open(os.environ["NOTE"], "a") as note:
    note.write(f"{os.getpid()} {child.pid}\\n")
word = msgspec.json.encode(Told(*sys.argv[3].rsplit(":", 1), "begun"))
with (folder / f"{rank}.jsonl").open("ab") as file:
    file.write(word + b"\\n")
time.sleep(60)
"""
"""A rank that says one word, starts something, and never goes on."""


def test_ranks_that_wait_for_ever_are_a_crash_and_leave_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NOTE", str(tmp_path / "note"))
    command = (sys.executable, "-c", SILENT)
    (cell,) = audit_distributed(
        ("llama",), library="transformers", scenarios=(TENSOR,), command=command, quiet=1.0
    )
    assert (cell.result, cell.codes) == ("crash", ["MD902"])
    assert "wait for each other" in cell.reason
    pids = [int(pid) for pid in (tmp_path / "note").read_text().split()]
    assert len(pids) == 4
    assert not [pid for pid in pids if runs(pid)]


def test_ranks_end_when_whoever_started_them_is_gone(tmp_path: Path) -> None:
    program = (
        "import os, sys\n"
        "from mlxdiag.audit.distributed.torchrun.launch import TorchrunLaunch\n"
        f"launch = TorchrunLaunch(['llama:tensor-parallel'], 0, ({sys.executable!r}, '-c', {SILENT!r}))\n"
        "launch.__enter__()\n"
        "words = launch.told(60)\n"
        "next(words), next(words)\n"
        "print(launch.agent.pid, flush=True)\n"
        "os._exit(0)\n"
    )
    note = tmp_path / "note"
    around = {**os.environ, "NOTE": str(note)}
    started = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True, env=around)
    ranks = [int(line.split()[0]) for line in note.read_text().splitlines()]
    children = [int(line.split()[1]) for line in note.read_text().splitlines()]
    pids = [int(started.stdout), *ranks]
    deadline = time.monotonic() + 20
    while any(runs(pid) for pid in pids) and time.monotonic() < deadline:
        time.sleep(0.1)
    left = [pid for pid in pids if runs(pid)]
    for pid in (*left, *children):
        if runs(pid):
            os.kill(pid, signal.SIGKILL)
    assert len(pids) == 3
    assert not left


def test_how_each_rank_ended_is_told_apart_from_what_torchrun_ended() -> None:
    program = (
        "import os, signal, sys, time\n"
        "print('last words', file=sys.stderr, flush=True)\n"
        "if os.environ['RANK'] == '0': os.kill(os.getpid(), signal.SIGILL)\n"
        "time.sleep(60)\n"
    )
    with TorchrunLaunch(["llama:tensor-parallel"], 0, (sys.executable, "-c", program)) as launch:
        assert list(launch.told(60)) == []
        assert launch.status() == [-signal.SIGILL, 0]
        assert launch.killed() == (0, -signal.SIGILL)
        assert launch.stderr(0).startswith("last words")
