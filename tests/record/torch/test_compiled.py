"""Under `torch.compile` nothing is observed, every such step is told of, and compiling works as before."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import DynamicCache

import mlxdiag
from mlxdiag.inspect.inspector import inspect_trace
from mlxdiag.traces.reader import read
from mlxdiag.traces.types import FORWARD_PHASES
from tests.record.torch import models

IDS = torch.arange(5, 15)[None]
TOKENS = 3


@pytest.fixture
def model() -> Iterator[Any]:
    torch._dynamo.reset()
    yield models.build()
    torch._dynamo.reset()


def feed(forward: Callable[..., Any], model: Any) -> Any:
    cache = DynamicCache(config=model.config)
    with torch.no_grad():
        forward(IDS, cache=cache)
        for token in range(TOKENS):
            out = forward(torch.tensor([[7 + token]]), cache=cache)
    return out


def a_compiled_model(model: Any) -> None:
    feed(torch.compile(model, backend="eager"), model)


def a_model_in_place(model: Any) -> None:
    model.compile(backend="eager")
    feed(model, model)


def its_forward(model: Any) -> None:
    model.forward = torch.compile(model.forward, backend="eager")
    feed(model, model)


def a_step_of_the_users_own(model: Any) -> None:
    @torch.compile(backend="eager")
    def step(ids: torch.Tensor, cache: Any) -> Any:
        return model(ids, cache=cache).logits

    feed(step, model)


@pytest.mark.parametrize("work", [a_compiled_model, a_model_in_place, its_forward, a_step_of_the_users_own])
def test_every_step_is_there_and_none_is_clean(
    model: Any, tmp_path: Path, work: Callable[[Any], None]
) -> None:
    with mlxdiag.recording(tmp_path / "t.yaml") as path:
        work(model)
    trace = read(path)
    forwards = [entry for entry in trace.entries if entry.kind in FORWARD_PHASES]
    assert [entry.kind for entry in forwards] == ["prefill", *["decode"] * TOKENS]
    report = inspect_trace(trace)
    assert report.findings == []
    assert (report.summary.judged, report.summary.not_observed) == (0, 1 + TOKENS)


def test_a_whole_graph_is_still_one(model: Any, tmp_path: Path) -> None:
    alone = feed(model, model)
    with mlxdiag.recording(tmp_path / "t.yaml"):
        recorded = feed(torch.compile(model, backend="eager", fullgraph=True), model)
    assert torch.equal(alone.logits, recorded.logits)


def test_a_function_without_a_model_is_nobodys_business(tmp_path: Path) -> None:
    with mlxdiag.recording(tmp_path / "t.yaml") as path:

        @torch.compile(backend="eager")
        def double(ids: torch.Tensor) -> torch.Tensor:
            return ids * 2

        assert double(IDS).tolist() == (IDS * 2).tolist()
    assert not path.exists()
