"""Left padding: healthy at every level of recording, and what a loop of one's own does wrong with it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import mlxdiag
from mlxdiag.inspect.inspector import inspect_trace
from mlxdiag.traces.reader import read

LEVELS = ("shapes", "visibility")
LEFT = (0, 14, 5)
LENGTH = 24


def padded(left: tuple[int, ...]) -> dict[str, Any]:
    ids = torch.arange(5, 5 + LENGTH).repeat(len(left), 1)
    for row, padding in enumerate(left):
        ids[row, :padding] = 0
    return {"input_ids": ids, "attention_mask": (ids != 0).long()}


def loop(model: Any, *, positions: str = "none", mask: bool = True) -> None:
    """A prompt and four tokens. `positions`: right throughout, columns in decode only, or none at all."""
    given = padded(LEFT)
    seen = given["attention_mask"]
    told = {} if positions == "none" else {"position_ids": (seen.cumsum(1) - 1).clamp(min=0)}
    with torch.no_grad():
        out = model(**given, **told, use_cache=True)
        for _ in range(4):
            seen = torch.cat([seen, seen.new_ones(len(LEFT), 1)], 1)
            at = seen.sum(1, keepdim=True) - 1
            if positions == "columns in decode":
                at = torch.full_like(at, seen.shape[1] - 1)
            out = model(
                out.logits[:, -1:].argmax(-1),
                past_key_values=out.past_key_values,
                **({"attention_mask": seen} if mask else {}),
                **({} if positions == "none" else {"position_ids": at}),
            )


def codes(path: Path) -> set[str]:
    return {finding.code for finding in inspect_trace(read(path)).findings}


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("left", [LEFT, (9,)], ids=["batch", "one prompt"])
@pytest.mark.parametrize("cache", ["dynamic", "static", None])
def test_padded_prompts_of_generate_are_clean(
    tmp_path: Path, model: Any, level: str, left: tuple[int, ...], cache: str | None
) -> None:
    how = {"use_cache": False} if cache is None else {"cache_implementation": cache, "disable_compile": True}
    with mlxdiag.recording(tmp_path / "t.yaml", level=level) as path:
        model.generate(**padded(left), max_new_tokens=3, do_sample=False, **how)
    assert codes(path) == set()


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("positions", ["none", "right"])
def test_a_loop_may_count_its_padding_among_the_positions_or_not(
    tmp_path: Path, model: Any, level: str, positions: str
) -> None:
    with mlxdiag.recording(tmp_path / "t.yaml", level=level) as path:
        loop(model, positions=positions)
    assert codes(path) == set()


def test_padding_that_enters_the_positions_in_decode_is_seen_where_positions_are_read(
    tmp_path: Path, model: Any
) -> None:
    with mlxdiag.recording(tmp_path / "t.yaml", level="visibility") as path:
        loop(model, positions="columns in decode")
    assert codes(path) == {"MD203"}


@pytest.mark.parametrize("level", LEVELS)
def test_a_loop_that_forgets_the_mask_in_decode_is_seen(tmp_path: Path, model: Any, level: str) -> None:
    with mlxdiag.recording(tmp_path / "t.yaml", level=level) as path:
        loop(model, mask=False)
    assert codes(path) == {"MD501"}
