"""Right padding: what `generate` makes of it, and what is legal."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import mlxdiag
from mlxdiag.inspect.inspector import inspect_trace
from mlxdiag.replay import experiment
from mlxdiag.traces.reader import read
from mlxdiag.traces.types import Trace
from tests.record.torch import models

LEVELS = ("shapes", "visibility")
RIGHT = (0, 14, 5)
LENGTH = 24
ANSWER = {"max_new_tokens": 4, "min_new_tokens": 4, "do_sample": False}


def padded(right: tuple[int, ...] = RIGHT, length: int = LENGTH) -> dict[str, Any]:
    ids = torch.arange(5, 5 + length).repeat(len(right), 1)
    for row, padding in enumerate(right):
        ids[row, length - padding :] = 0
    return {"input_ids": ids, "attention_mask": (ids != 0).long()}


@pytest.fixture(scope="module")
def full() -> Any:
    """No layer slides: padding takes no room of a window."""
    return models.build(layer_types=["full_attention"] * models.LAYERS)


def codes(trace: Trace) -> set[str]:
    return {finding.code for finding in inspect_trace(trace).findings}


def replayed(trace: Trace) -> set[str]:
    prepared = experiment.prepare(trace, source="trace.yaml", backend="torch")
    (ran,) = experiment.run_policies(prepared, experiment.instance_for(prepared, device="cpu"), ("strict",))
    return {finding.code for finding in ran.report.findings}


WAYS: dict[str, dict[str, Any]] = {
    "dynamic": {},
    "static": {"cache_implementation": "static", "disable_compile": True},
    "none": {"use_cache": False},
    "chunks": {"prefill_chunk_size": 8},
}


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("way", WAYS)
def test_generate_samples_from_padding(tmp_path: Path, full: Any, level: str, way: str) -> None:
    with mlxdiag.recording(tmp_path / "t.yaml", level=level) as path:
        full.generate(**padded(), **ANSWER, **WAYS[way])
    trace = read(path)
    found, *more = inspect_trace(trace).findings
    assert found.code == "MD404"
    assert found.evidence["sequences"] == ["seq-2", "seq-3"]
    # `generate` counts on from the position of the last column, which is 0 where that is padding.
    restarts = level == "visibility" and way != "none"
    assert [(f.code, f.evidence["rope"]) for f in more] == [("MD203", 1)] * restarts
    # A loop that counts the tokens would have right positions and masks, and logits of all that it fed.
    assert replayed(trace) == {"MD404"}


def test_the_rows_hold_their_own_tokens(tmp_path: Path, full: Any) -> None:
    with mlxdiag.recording(tmp_path / "t.yaml") as path:
        full.generate(**padded(), **ANSWER)
    entries = [entry for entry in read(path).entries if entry.attention]
    rows = entries[0].rows or []
    assert [(row.tokens, row.total, row.right_padding) for row in rows] == [
        (LENGTH - right, LENGTH - right, right or None) for right in RIGHT
    ]
    assert [row.tokens for row in entries[1].rows or []] == [1, 1, 1]
    assert [row.right_padding for row in entries[1].rows or []] == [None] * 3


def test_padding_takes_room_of_a_window(tmp_path: Path, model: Any) -> None:
    """The ring holds sixteen columns, the padding of the second row among them."""
    with mlxdiag.recording(tmp_path / "t.yaml") as path:
        model.generate(**padded(), **ANSWER)
    trace = read(path)
    assert codes(trace) == {"MD404"}
    prepared = experiment.prepare(trace, source="trace.yaml", backend="torch")
    (ran,) = experiment.run_policies(prepared, experiment.instance_for(prepared, device="cpu"), ("strict",))
    (parity,) = [f for f in ran.report.findings if f.code == "MD402" and f.seq == "seq-2"]
    assert {cause.split()[0] for cause in parity.cause} == {"MD302", "MD305"}


def test_rows_that_end_early_stay_replayable(tmp_path: Path, full: Any) -> None:
    free = {"max_new_tokens": 9, "do_sample": False}
    answers = full.generate(**padded(), **free)[:, LENGTH:].tolist()
    end = next(token for token in answers[1][1:] if token not in answers[0])
    with mlxdiag.recording(tmp_path / "t.yaml") as path:
        full.generate(**padded(), **free, eos_token_id=end)
    trace = read(path)
    assert any(row.tokens == 0 for entry in trace.entries for row in entry.rows or [])
    assert replayed(trace) == {"MD404"}


def test_one_prompt_alone(tmp_path: Path, full: Any) -> None:
    with mlxdiag.recording(tmp_path / "t.yaml") as path:
        full.generate(**padded((7,)), **ANSWER)
    trace = read(path)
    assert codes(trace) == replayed(trace) == {"MD404"}


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("cached", [True, False])
def test_scoring_is_legal(tmp_path: Path, model: Any, level: str, cached: bool) -> None:
    with mlxdiag.recording(tmp_path / "t.yaml", level=level) as path, torch.no_grad():
        model(**padded(), labels=padded()["input_ids"], use_cache=cached)
    trace = read(path)
    assert codes(trace) == set()
    assert replayed(trace) == set()


def loop(model: Any, *, mask: bool = True, positions: bool = True) -> None:
    """A prompt and three tokens, each row's first one taken from its own last token."""
    given = padded()
    seen = given["attention_mask"]
    last = seen.sum(1, keepdim=True) - 1
    with torch.no_grad():
        out = model(**given, use_cache=True)
        token = out.logits[torch.arange(len(RIGHT))[:, None], last].argmax(-1)
        for number in range(3):
            seen = torch.cat([seen, seen.new_ones(len(RIGHT), 1)], 1)
            out = model(
                token,
                cache=out.past_key_values,
                **({"attention_mask": seen} if mask else {}),
                **({"position_ids": last + 1 + number} if positions else {}),
            )
            token = out.logits[:, -1:].argmax(-1)


@pytest.mark.parametrize("level", LEVELS)
def test_a_loop_that_samples_from_the_last_token_and_hides_the_padding_is_clean(
    tmp_path: Path, full: Any, level: str
) -> None:
    with mlxdiag.recording(tmp_path / "t.yaml", level=level) as path:
        loop(full)
    trace = read(path)
    assert codes(trace) == set()
    assert replayed(trace) == set()


@pytest.mark.parametrize("level", LEVELS)
def test_a_loop_that_forgets_the_mask_behind_padding(tmp_path: Path, full: Any, level: str) -> None:
    with mlxdiag.recording(tmp_path / "t.yaml", level=level) as path:
        loop(full, mask=False)
    trace = read(path)
    assert codes(trace) == {"MD206"}
    assert replayed(trace) & {"MD402", "MD304"}


def test_a_loop_that_counts_hidden_padding_among_its_positions(tmp_path: Path, full: Any) -> None:
    with mlxdiag.recording(tmp_path / "t.yaml", level="visibility") as path:
        loop(full, positions=False)
    assert codes(read(path)) == {"MD203"}


def test_a_mask_longer_than_the_input_is_no_padding(tmp_path: Path, full: Any) -> None:
    ids = torch.arange(5, 5 + LENGTH)[None]
    mask = torch.zeros(1, LENGTH + 8, dtype=torch.long)
    mask[:, :LENGTH] = 1
    with mlxdiag.recording(tmp_path / "t.yaml") as path, torch.no_grad():
        full(ids, attention_mask=mask)
    trace = read(path)
    assert codes(trace) == set()
    assert all(row.right_padding is None for entry in trace.entries for row in entry.rows or [])
