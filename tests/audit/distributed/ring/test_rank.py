"""Families of mlx-lm split over two processes, and what becomes of a rank that is wrong, fails or dies."""

from __future__ import annotations

import sys

import pytest

from mlxdiag.audit.cell import Cell
from mlxdiag.audit.distributed.distributed import audit_distributed
from mlxdiag.audit.distributed.launch import RANKS
from mlxdiag.audit.distributed.ring.launch import RingLaunch
from mlxdiag.audit.distributed.told import PIPELINE, TENSOR
from mlxdiag.audit.engine.table import DISTRIBUTED
from mlxdiag.models.mlx import zoo

FAULTY = (sys.executable, "-m", "tests.audit.distributed.ring.faulty_rank")


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
    with RingLaunch([f"qwen2:{PIPELINE}"], 0) as launch:
        done = [told for _, told in launch.told() if told.state == "done"]
    held = [told.layers for told in done]
    assert len(held) == RANKS
    assert all(0 < told.weights < told.whole for told in done)
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
