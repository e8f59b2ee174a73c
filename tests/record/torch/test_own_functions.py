"""Programs that attend with a function of their own: what it does with its mask is never called clean."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask
from transformers.models.gemma3 import modeling_gemma3

import mlxdiag
from mlxdiag.inspect.findings import Report
from mlxdiag.inspect.inspector import inspect_trace
from mlxdiag.reports.view import verdict
from mlxdiag.traces.reader import read
from mlxdiag.traces.types import Attention
from tests.record.torch import models

IDS = torch.tensor([[0] * 4 + list(range(5, 37)), list(range(5, 41))])
MASK = (IDS != 0).long()
LEVELS = pytest.mark.parametrize("level", ["shapes", "visibility"])


def unmasked(module: Any, query: Any, key: Any, value: Any, _mask: Any, **kwargs: Any) -> Any:
    """Causal, and nothing else: padding and windows are lost."""
    return sdpa_attention_forward(module, query, key, value, None, **kwargs)


def recorded(model: Any, path: Path, level: str) -> tuple[list[Attention], Report]:
    with mlxdiag.recording(path, level=level):
        model.generate(IDS, attention_mask=MASK, max_new_tokens=4, do_sample=False)
    trace = read(path)
    return [call for entry in trace.entries for call in entry.attention or []], inspect_trace(trace)


def register(monkeypatch: pytest.MonkeyPatch, name: str, function: Any) -> None:
    monkeypatch.setitem(AttentionInterface._global_mapping, name, function)
    monkeypatch.setitem(AttentionMaskInterface._global_mapping, name, sdpa_mask)


def assert_unseen(calls: list[Attention], report: Report) -> None:
    assert calls
    assert all(call.opaque and not isinstance(call.mask, tuple | str) for call in calls)
    assert all(call.mask is not None and call.visible is None for call in calls)
    assert (report.summary.judged, report.summary.not_observed) == (0, len(calls))
    assert not verdict(report).startswith("clean")
    assert sum("function of the program's own" in note for note in report.summary.notes) == 1


@LEVELS
@pytest.mark.parametrize("name", ["mine", "sdpa"])
def test_a_function_that_the_program_registered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, level: str, name: str
) -> None:
    register(monkeypatch, name, unmasked)
    assert_unseen(*recorded(models.build(attn_implementation=name), tmp_path / "t.yaml", level))


@LEVELS
def test_a_function_in_the_place_of_a_models_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, level: str
) -> None:
    monkeypatch.setattr(modeling_gemma3, "eager_attention_forward", unmasked)
    assert_unseen(*recorded(models.build(attn_implementation="eager"), tmp_path / "t.yaml", level))


@LEVELS
@pytest.mark.parametrize("name", ["sdpa", "eager", "mine"])
def test_the_librarys_own_under_any_name_is_judged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, level: str, name: str
) -> None:
    register(monkeypatch, "mine", sdpa_attention_forward)
    calls, report = recorded(models.build(attn_implementation=name), tmp_path / "t.yaml", level)
    assert calls
    assert not any(call.opaque for call in calls)
    assert (report.findings, report.summary.not_observed) == ([], 0)
    assert verdict(report) == "clean: no rule fired"


def test_a_program_that_changes_its_function_midway(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    register(monkeypatch, "mine", unmasked)
    model = models.build()
    with mlxdiag.recording(tmp_path / "t.yaml") as path, torch.no_grad():
        model(IDS, attention_mask=MASK)
        model.set_attn_implementation("mine")
        model(IDS, attention_mask=MASK)
    first, second = (entry.attention for entry in read(path).entries if entry.attention)
    assert [call.opaque for call in first or []] == [None, None]
    assert [call.opaque for call in second or []] == [True, True]
