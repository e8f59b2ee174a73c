"""What becomes of two ranks of the ring that wait for ever, and of those whose parent is gone."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from mlxdiag.audit.distributed.distributed import audit_distributed
from mlxdiag.audit.distributed.ring.launch import RingLaunch
from mlxdiag.audit.distributed.told import TENSOR
from tests.audit.distributed.processes import runs

FAULTY = (sys.executable, "-m", "tests.audit.distributed.ring.faulty_rank")


def test_ranks_that_wait_for_ever_are_a_crash() -> None:
    (cell,) = audit_distributed(("ministral3",), scenarios=(TENSOR,), command=FAULTY, quiet=3.0)
    assert (cell.result, cell.codes) == ("crash", ["MD902"])
    assert "wait for each other" in cell.reason


def test_leaving_a_launch_kills_what_its_ranks_started(tmp_path: Path) -> None:
    note = tmp_path / "pid"
    program = (
        "import subprocess, sys, time, pathlib\n"
        f"child = subprocess.Popen(['sleep', '60']); path = pathlib.Path({str(note)!r})\n"
        "path.write_text(str(child.pid)); time.sleep(60)\n"
    )
    with RingLaunch([], 0, (sys.executable, "-c", program)):
        deadline = time.monotonic() + 10
        while not (note.exists() and note.read_text()) and time.monotonic() < deadline:
            time.sleep(0.02)
        child = int(note.read_text())
    time.sleep(0.1)
    assert not runs(child)


def test_ranks_end_when_their_parent_is_gone() -> None:
    program = (
        "import os\n"
        "from mlxdiag.audit.distributed.ring.launch import RingLaunch\n"
        "launch = RingLaunch(['ministral3:tensor-parallel'], 0, "
        f"({sys.executable!r}, '-m', 'tests.audit.distributed.ring.faulty_rank')).__enter__()\n"
        "next(launch.told(60))\n"
        "print(*[process.pid for process in launch.processes], flush=True)\n"
        "os._exit(0)\n"
    )
    started = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    pids = [int(pid) for pid in started.stdout.split()]
    deadline = time.monotonic() + 20
    while any(runs(pid) for pid in pids) and time.monotonic() < deadline:
        time.sleep(0.1)
    left = [pid for pid in pids if runs(pid)]
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    assert len(pids) == 2
    assert not left
