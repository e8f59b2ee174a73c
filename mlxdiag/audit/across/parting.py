"""Where two forwards of the same tokens part: the first layer, and in it the first value that differs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from mlxdiag.audit.across.compared import Wrong
from mlxdiag.audit.across.watched import Watching
from mlxdiag.models.inside import ATTENTION, Spot, Value, Wanted
from mlxdiag.replay.ops import Feed, Forward, Plan

EQUAL = 1e-4
"""Of a value's own standard deviation. Rounding stays below 2e-5 within a layer of every family measured; the
smallest difference of meaning began at 1e-3."""

Maker = Callable[[Plan], Watching]
"""Makes a fresh run of a plan on one of the two instances."""
Misses = NDArray[np.float64]


class Parting(msgspec.Struct, frozen=True, kw_only=True):
    """The first difference inside a forward."""

    layer: int | None
    """The first layer that differs; None: before the first one, or after the last one."""
    part: str
    """The first part whose result, or whose input, differs; "" where only whole layers could be compared."""
    end: str
    """in, out, queries, keys or values."""
    by: float
    """How far apart, in standard deviations of that value."""
    relative: float
    """The largest difference of any number in it, as a fraction of that number."""
    seq: str
    position: int
    """The first position at which it differs."""
    agreed: str
    """The last part before it that was compared and agrees."""
    inputs: float
    """How far apart the inputs of the layer are; below `EQUAL`, so the layer itself is to blame."""


def find(makers: Sequence[Maker], plan: Plan, wrong: Wrong) -> Parting | None:
    """Run a plan twice in both libraries, and look into the forward of the first wrong position.

    What comes behind that position did not make it wrong, and is left out. First the inputs of all layers are
    compared, then everything within the first one that differs. None where nothing inside differs, or nothing
    can be compared.
    """
    op = wrong.place.op
    forward = plan.ops[op]
    assert isinstance(forward, Forward)
    feeds = [
        msgspec.structs.replace(feed, tokens=wrong.position - feed.start + 1 if row == wrong.place.row else 0)
        for row, feed in enumerate(forward.feeds)
    ]
    width = forward.width
    until = msgspec.structs.replace(plan, ops=plan.ops[: op + 1])
    first, second = (_values(make(until), op, _layers) for make in makers)
    wanted = _within(_layer(first, second, feeds, width))
    first, second = (_values(make(until), op, wanted) for make in makers)
    return parting(_behind_start(first, second, feeds, width), second, feeds, width)


def parting(
    first: Sequence[Value], second: Sequence[Value], feeds: Sequence[Feed], width: int
) -> Parting | None:
    """The first value of `first`, in the order in which it makes them, that differs from its namesake.

    `feeds`: which tokens of each row are compared, behind its left padding; `width`: columns of the forward.
    """
    others = {value.spot: _by_token(value.array, width) for value in second}
    agreed, inputs = "", 0.0
    for value in first:
        ours = _by_token(value.array, width)
        misses = _misses(ours, others.get(value.spot), feeds, width)
        if misses is None:
            continue
        spot = value.spot
        row, column = _first(misses)
        if row is None:
            agreed = _named(spot)
            if spot.part == "" and spot.end == "in":
                inputs = float(np.nanmax(misses, initial=0.0))
            continue
        feed = feeds[row]
        return Parting(
            layer=spot.layer,
            part=spot.part,
            end=spot.end,
            by=float(np.nanmax(misses)),
            relative=_relative(ours, others[spot], feeds, width),
            seq=feed.seq,
            position=feed.start + column,
            agreed=agreed,
            inputs=inputs,
        )
    return None


def _values(run: Watching, op: int, wanted: Wanted) -> list[Value]:
    """Values inside one forward of a run; none where it does not come so far."""
    inside = import_module(f"mlxdiag.models.{run.library.name}.inside")
    found: list[Value] = []

    @contextmanager
    def watch() -> Iterator[None]:
        with inside.values(run.instance.model, wanted) as values:
            yield
        found.extend(values)

    run.look(op, watch)
    run.run()
    return found


def _layers(layer: int | None, part: str) -> bool:
    return layer is not None and part == ""


def _within(layer: int | None) -> Wanted:
    """Everything in one layer; without one, what stands outside of the layers, and the first one's input."""

    def wanted(where: int | None, part: str) -> bool:
        return where == layer if layer is not None else where is None or (where == 0 and part == "")

    return wanted


def _layer(first: Sequence[Value], second: Sequence[Value], feeds: Sequence[Feed], width: int) -> int | None:
    """The first layer whose result differs while what goes into it agrees; None where there is none.

    Outside of the layers a value may be another one and mean the same: one library scales an embedding within
    the module, the other behind it.
    """
    found = parting(first, second, feeds, width)
    return found.layer if found is not None and found.end == "out" else None


def _behind_start(
    first: Sequence[Value], second: Sequence[Value], feeds: Sequence[Feed], width: int
) -> Sequence[Value]:
    """Without what comes before the first layer, where its input agrees."""
    start = Spot(0, "", "in")
    at = next((index for index, value in enumerate(first) if value.spot == start), None)
    if at is None:
        return first
    begun = [value for value in first if value.spot == start]
    return first if parting(begun, second, feeds, width) is not None else first[at:]


def _misses(
    one: NDArray[Any], other: NDArray[Any] | None, feeds: Sequence[Feed], width: int
) -> Misses | None:
    """How far apart two values are, [B, tokens], in standard deviations; NaN where a row has no such token.

    None where they cannot be compared: another shape, or no row for each sequence.
    """
    if other is None or one.size != other.size:
        return None
    if one.ndim == 2 and one.shape[0] == len(feeds) * width:
        one = one.reshape(len(feeds), width, -1)
    other = other.reshape(one.shape)
    if one.shape[:2] != (len(feeds), width):
        return None
    with np.errstate(invalid="ignore"):
        apart = np.abs(one.astype(np.float64) - other).reshape(*one.shape[:2], -1).max(axis=-1)
    apart = np.where(np.isnan(apart), np.inf, apart)
    held = np.concatenate([part.reshape(-1) for part in _real(one, feeds)])
    scale = float(np.std(held)) or 1.0
    misses = np.full((len(feeds), width), np.nan)
    for row, feed in enumerate(feeds):
        columns = slice(feed.left, feed.left + feed.tokens)
        misses[row, : feed.tokens] = apart[row, columns] / scale
    return misses


def _by_token(array: NDArray[Any], width: int) -> NDArray[Any]:
    """Heads before tokens, [B, heads, tokens, size], as tokens before heads: libraries norm them in either
    order."""
    heads_first = array.ndim == 4 and array.shape[1] != width and array.shape[2] == width
    return array.swapaxes(1, 2) if heads_first else array


def _real(array: NDArray[Any], feeds: Sequence[Feed]) -> Iterator[NDArray[Any]]:
    """The tokens compared of each row, [tokens, ...]."""
    for row, feed in enumerate(feeds):
        yield array[row, feed.left : feed.left + feed.tokens]


def _first(misses: Misses) -> tuple[int | None, int]:
    """Row and token of the earliest difference; None where there is none."""
    wrong = np.argwhere(np.nan_to_num(misses, nan=0.0, posinf=np.inf) > EQUAL)
    if not len(wrong):
        return None, 0
    row, column = min(wrong.tolist(), key=lambda at: (at[1], at[0]))
    return row, column


def _relative(one: NDArray[Any], other: NDArray[Any], feeds: Sequence[Feed], width: int) -> float:
    """The largest difference as a fraction of the larger of the two numbers, over the tokens compared."""
    shape = (len(feeds), width, -1)
    pairs = zip(_real(one.reshape(shape), feeds), _real(other.reshape(shape), feeds), strict=True)
    worst = 0.0
    for ours, theirs in pairs:
        size = np.maximum(np.abs(ours), np.abs(theirs))
        with np.errstate(invalid="ignore", divide="ignore"):
            apart = np.where(size > 0, np.abs(ours - theirs) / size, 0.0)
        worst = max(worst, float(np.nanmax(apart, initial=0.0)))
    return worst


def _named(spot: Spot) -> str:
    part = spot.part or "layer"
    return f"{part} ({spot.end})" if spot.part != ATTENTION or spot.end != "out" else ATTENTION
