"""Families split over two processes, and what becomes of a rank that is wrong, fails, dies or hangs."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from mlxdiag.audit.cell import Cell
from mlxdiag.audit.distributed.distributed import QUIET, audit_distributed
from mlxdiag.audit.distributed.launch import RANKS, Launch
from mlxdiag.audit.distributed.rank import PIPELINE, TENSOR
from mlxdiag.audit.engine.table import DISTRIBUTED
from mlxdiag.models.mlx import zoo

FAULTY = (sys.executable, "-m", "tests.audit.faulty_rank")


Found = dict[tuple[str, str], Cell]


@pytest.fixture(scope="module")
def found() -> Found:
    """Two families as they are, and three that `faulty_rank` breaks, in one audit."""
    families = ("gpt_oss", "qwen3", "llama", "qwen2", "gemma3_text")
    return {(cell.family, cell.scenario): cell for cell in audit_distributed(families, command=FAULTY)}


def test_a_family_that_splits_well_passes_both_ways(found: Found) -> None:
    for kind in (TENSOR, PIPELINE):
        cell = found["qwen2", kind]
        assert cell.result == "pass", cell.reason
        # Two ranks, three schedules of 19 tokens, one of two rows.
        assert cell.judged == {"parity": 2 * 5 * 19}


def test_each_rank_of_a_pipeline_holds_a_part_of_the_layers() -> None:
    """Else two whole models would agree with a third."""
    with Launch([f"qwen2:{PIPELINE}"], 0) as launch:
        held = [told.layers for _, told in launch.told(QUIET) if told.state == "done"]
    assert len(held) == RANKS
    assert min(held) > 0
    assert sum(held) == len(zoo.tiny("qwen2").model.layers)


def test_a_family_that_the_library_will_not_split_is_unsupported(found: Found) -> None:
    assert {found["gemma3_text", kind].result for kind in (TENSOR, PIPELINE)} == {"unsupported"}
    assert "no shard" in found["gemma3_text", TENSOR].reason


def test_the_scenarios_are_of_one_group_and_known_by_the_kinds() -> None:
    assert [(scenario.name, scenario.group) for scenario in DISTRIBUTED] == [
        (TENSOR, "distributed"),
        (PIPELINE, "distributed"),
    ]


def test_sinks_that_are_not_split_with_their_heads_fail(found: Found) -> None:
    cell = found["gpt_oss", TENSOR]
    assert (cell.result, cell.codes, cell.oracles) == ("fail", ["MD402"], ["parity"])
    assert cell.evidence["max_abs"] > cell.evidence["tolerance"]
    assert cell.evidence["first"] == 0


def test_an_exception_in_one_rank_is_a_crash_with_its_line(found: Found) -> None:
    cell = found["qwen3", TENSOR]
    assert (cell.result, cell.codes) == ("crash", ["MD906"])
    assert "rank 1" in cell.reason
    assert "o_proj" in cell.reason
    assert cell.where.startswith("mlx_lm/models/qwen3.py:")


def test_a_rank_that_dies_is_a_crash_with_its_signal(found: Found) -> None:
    cell = found["llama", TENSOR]
    assert (cell.result, cell.codes) == ("crash", ["MD902"])
    assert cell.reason.startswith("rank 1 ended with SIGSEGV")
    assert "Extension modules" not in cell.reason


def test_ranks_that_wait_for_ever_are_a_crash() -> None:
    (cell,) = audit_distributed(("ministral3",), scenarios=(TENSOR,), command=FAULTY, quiet=3.0)
    assert (cell.result, cell.codes) == ("crash", ["MD902"])
    assert "wait for each other" in cell.reason


def test_without_a_rank_that_starts_all_is_skipped_with_what_it_said() -> None:
    command = (sys.executable, "-c", "raise SystemExit('no ring here')")
    cells = list(audit_distributed(("qwen2", "gpt_oss"), scenarios=(TENSOR,), command=command))
    assert [(cell.family, cell.result) for cell in cells] == [("qwen2", "skipped"), ("gpt_oss", "skipped")]
    assert all("no ring here" in cell.reason for cell in cells)


def test_past_the_time_limit_what_is_left_is_skipped() -> None:
    (cell,) = audit_distributed(("qwen2",), scenarios=(TENSOR,), limit=-1.0)
    assert cell.result == "skipped"
    assert "time limit" in cell.reason


def test_leaving_a_launch_kills_what_its_ranks_started(tmp_path: Path) -> None:
    note = tmp_path / "pid"
    program = (
        "import subprocess, sys, time, pathlib\n"
        f"child = subprocess.Popen(['sleep', '60']); path = pathlib.Path({str(note)!r})\n"
        "path.write_text(str(child.pid)); time.sleep(60)\n"
    )
    with Launch([], 0, (sys.executable, "-c", program)):
        deadline = time.monotonic() + 10
        while not (note.exists() and note.read_text()) and time.monotonic() < deadline:
            time.sleep(0.02)
        child = int(note.read_text())
    time.sleep(0.1)
    assert not _runs(child)


def test_ranks_end_when_their_parent_is_gone() -> None:
    program = (
        "import os\n"
        "from mlxdiag.audit.distributed.launch import Launch\n"
        "launch = Launch(['ministral3:tensor-parallel'], 0, "
        f"({sys.executable!r}, '-m', 'tests.audit.faulty_rank')).__enter__()\n"
        "next(launch.told(60))\n"
        "print(*[process.pid for process in launch.processes], flush=True)\n"
        "os._exit(0)\n"
    )
    started = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    pids = [int(pid) for pid in started.stdout.split()]
    deadline = time.monotonic() + 20
    while any(_runs(pid) for pid in pids) and time.monotonic() < deadline:
        time.sleep(0.1)
    left = [pid for pid in pids if _runs(pid)]
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    assert len(pids) == 2
    assert not left


def _runs(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"
