"""Families that no rank reaches: none can be started, or the time is over."""

from __future__ import annotations

import sys

import pytest
import torch.distributed

from mlxdiag.audit.distributed.distributed import LAUNCHES, audit_distributed
from mlxdiag.audit.distributed.told import TENSOR
from mlxdiag.audit.libraries.table import NAMES


def test_without_a_rank_that_starts_all_is_skipped_with_what_it_said() -> None:
    command = (sys.executable, "-c", "raise SystemExit('no ring here')")
    cells = list(audit_distributed(("qwen2", "gpt_oss"), scenarios=(TENSOR,), command=command))
    assert [(cell.family, cell.result) for cell in cells] == [("qwen2", "skipped"), ("gpt_oss", "skipped")]
    assert all("no ring here" in cell.reason for cell in cells)


def test_past_the_time_limit_what_is_left_is_skipped() -> None:
    (cell,) = audit_distributed(("qwen2",), scenarios=(TENSOR,), limit=-1.0)
    assert cell.result == "skipped"
    assert "time limit" in cell.reason


def test_without_torch_distributed_all_is_skipped_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.distributed, "is_available", lambda: False)
    (cell,) = audit_distributed(("gemma3_text",), library="transformers", scenarios=(TENSOR,))
    assert (cell.library, cell.family, cell.scenario) == ("transformers", "gemma3_text", TENSOR)
    assert cell.result == "skipped"
    assert "torch.distributed" in cell.reason


def test_without_gloo_all_is_skipped_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.distributed, "is_gloo_available", lambda: False)
    cell, _ = audit_distributed(("gemma3_text",), library="transformers")
    assert cell.result == "skipped"
    assert "gloo" in cell.reason


def test_every_audited_library_is_split_somehow() -> None:
    assert set(LAUNCHES) == set(NAMES)
