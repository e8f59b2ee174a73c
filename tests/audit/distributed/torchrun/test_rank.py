"""Families of transformers split over two processes, as they are and with one rank broken."""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec
import pytest
import torch

from mlxdiag.audit.cell import Cell
from mlxdiag.audit.distributed.distributed import audit_distributed
from mlxdiag.audit.distributed.told import TENSOR, Told
from mlxdiag.audit.distributed.torchrun.rank import TorchrunRank, last

FAULTY = (sys.executable, "-m", "tests.audit.distributed.torchrun.faulty_rank")
TOKENS = 2 * 5 * 19
"""Two ranks; three schedules of 19 tokens, and one of two rows."""


@pytest.fixture(scope="module")
def found() -> dict[str, Cell]:
    """One launch: a family as it is, one without a plan, and four that `faulty_rank` breaks."""
    families = ("gpt_neo", "qwen2", "gemma3_text", "gemma3_text:eager", "gemma2", "llama")
    cells = audit_distributed(families, library="transformers", scenarios=(TENSOR,), command=FAULTY)
    return {cell.family: cell for cell in cells}


def test_a_family_that_splits_well_passes_by_all_oracles(found: dict[str, Cell]) -> None:
    cell = found["gemma3_text"]
    assert cell.result == "pass", cell.reason
    assert cell.judged["parity"] == TOKENS
    # Layers of two kinds, and each query of each of them.
    assert cell.judged["visibility"] == 2 * TOKENS
    assert cell.judged["geometry"] > 0


def test_a_family_without_a_plan_is_unsupported(found: dict[str, Cell]) -> None:
    cell = found["gpt_neo"]
    assert cell.result == "unsupported"
    assert "GPTNeoForCausalLM has no tensor-parallel plan" in cell.reason


def test_a_rank_that_drops_its_window_is_found_by_what_its_heads_see(found: dict[str, Cell]) -> None:
    cell = found["gemma3_text:eager"]
    assert cell.result == "fail"
    assert cell.evidence["rank"] == 1
    assert cell.reason.startswith("rank 1, ")
    assert {"visibility", "parity"} <= set(cell.oracles)
    # With a window of 8, the query at position 8 is the first that has a key to lose.
    assert cell.evidence["first"] == 8
    assert cell.where.startswith("transformers/models/gemma3/modeling_gemma3.py:")


def test_a_rank_whose_heads_are_not_summed_up_is_found_by_logits_alone(found: dict[str, Cell]) -> None:
    cell = found["gemma2"]
    assert (cell.result, cell.codes, cell.oracles) == ("fail", ["MD402"], ["parity"])
    assert cell.evidence["max_abs"] > cell.evidence["tolerance"]
    assert cell.evidence["first"] == 0


def test_a_rank_that_dies_is_a_crash_with_its_signal(found: dict[str, Cell]) -> None:
    cell = found["llama"]
    assert (cell.result, cell.codes) == ("crash", ["MD902"])
    assert cell.reason.startswith("rank 1 ended with SIGSEGV")


def test_what_fails_alike_in_both_ranks_does_not_end_them(found: dict[str, Cell]) -> None:
    cell = found["qwen2"]
    assert (cell.result, cell.codes) == ("crash", ["MD906"])
    # Had they ended, it would be one rank's.
    assert cell.reason.startswith("every rank, fresh over the window: AttributeError")
    assert cell.where.startswith("transformers/models/qwen2/modeling_qwen2.py:")


def test_ranks_that_fail_in_unlike_ways_or_at_unlike_places_do_not_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.distributed, "all_reduce", lambda count: count.mul_(2))
    own = Told("llama", TENSOR, "failed", during="splitting", error="ValueError")
    rank = TorchrunRank(tmp_path, 0, 0)
    answers = {
        "alike": own,
        "error": msgspec.structs.replace(own, error="KeyError"),
        "during": msgspec.structs.replace(own, during="building"),
        "state": msgspec.structs.replace(own, state="done"),
    }
    agreed = {}
    for name, answer in answers.items():
        (tmp_path / "1.jsonl").write_bytes(msgspec.json.encode(answer) + b"\n")
        agreed[name] = rank.agreed(own)
    assert agreed == {"alike": True, "error": False, "during": False, "state": False}


def test_a_rank_has_not_ended_an_item_that_it_has_only_begun(tmp_path: Path) -> None:
    report, ended = tmp_path / "1.jsonl", Told("llama", TENSOR, "done")
    words = [Told("gemma", TENSOR, "done"), Told("llama", TENSOR, "begun"), ended]
    lines = [msgspec.json.encode(word) + b"\n" for word in words]
    report.write_bytes(b"".join(lines[:2]))
    assert last(report, ended) is None
    report.write_bytes(b"".join(lines)[:-1])
    assert last(report, ended) is None
    report.write_bytes(b"".join(lines))
    assert last(report, ended) == ended
