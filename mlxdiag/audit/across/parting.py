"""Where two forwards of the same tokens part: the first layer, and in it the first value that differs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

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


def find(makers: Sequence[Maker], plan: Plan, op: int) -> Parting | None:
    """Run a plan twice in both libraries, and look into the forward at this place of it.

    First the inputs of all layers are compared, then everything within the first one that differs. None where
    nothing inside differs, or nothing can be compared.
    """
    forward = plan.ops[op]
    assert isinstance(forward, Forward)
    until = msgspec.structs.replace(plan, ops=plan.ops[: op + 1])
    first, second = (_values(make(until), op, _layers) for make in makers)
    wanted = _within(_layer(first, second, forward.feeds))
    first, second = (_values(make(until), op, wanted) for make in makers)
    return parting(first, second, forward.feeds)


def parting(first: Sequence[Value], second: Sequence[Value], feeds: Sequence[Feed]) -> Parting | None:
    """The first value of `first`, in the order in which it makes them, that differs from its namesake."""
    others = {value.spot: value.array for value in second}
    agreed, inputs = "", 0.0
    for value in first:
        misses = _misses(value.array, others.get(value.spot), feeds)
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
            relative=_relative(value.array, others[spot]),
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
    """Everything in one layer, and what stands outside of the layers."""

    def wanted(where: int | None, part: str) -> bool:
        return where is None or (where == layer) or (part == "" and layer is None)

    return wanted


def _layer(first: Sequence[Value], second: Sequence[Value], feeds: Sequence[Feed]) -> int | None:
    """The first layer whose result differs while what goes into it agrees."""
    found = parting(first, second, feeds)
    if found is None or found.layer is None:
        return None
    # A layer's input is the result of the one before it, unless it is the first one.
    return found.layer if found.end == "out" else None


def _misses(one: NDArray[Any], other: NDArray[Any] | None, feeds: Sequence[Feed]) -> Misses | None:
    """How far apart two values are, [B, tokens], in standard deviations; NaN where a row has no such token.

    None where they cannot be compared: another shape, or no row for each sequence.
    """
    if other is None or one.size != other.size:
        return None
    width = max(feed.width for feed in feeds)
    if one.ndim == 2 and one.shape[0] == len(feeds) * width:
        one = one.reshape(len(feeds), width, -1)
    other = other.reshape(one.shape)
    if one.shape[:2] != (len(feeds), width):
        return None
    with np.errstate(invalid="ignore"):
        apart = np.abs(one.astype(np.float64) - other).reshape(*one.shape[:2], -1).max(axis=-1)
    apart = np.where(np.isnan(apart), np.inf, apart)
    real = list(_real(apart, one, feeds))
    scale = float(np.std(np.concatenate([held.reshape(-1) for _, held in real]))) or 1.0
    misses = np.full((len(feeds), width), np.nan)
    for row, (differences, _) in enumerate(real):
        misses[row, : len(differences)] = differences / scale
    return misses


def _real(apart: Misses, one: NDArray[Any], feeds: Sequence[Feed]) -> Iterator[tuple[Misses, NDArray[Any]]]:
    for row, feed in enumerate(feeds):
        held = slice(feed.left, feed.left + feed.tokens)
        yield apart[row, held], one[row, held]


def _first(misses: Misses) -> tuple[int | None, int]:
    """Row and token of the earliest difference; None where there is none."""
    wrong = np.argwhere(np.nan_to_num(misses, nan=0.0, posinf=np.inf) > EQUAL)
    if not len(wrong):
        return None, 0
    row, column = min(wrong.tolist(), key=lambda at: (at[1], at[0]))
    return row, column


def _relative(one: NDArray[Any], other: NDArray[Any]) -> float:
    """The largest difference as a fraction of the larger of the two numbers."""
    other = other.reshape(one.shape)
    size = np.maximum(np.abs(one), np.abs(other))
    with np.errstate(invalid="ignore", divide="ignore"):
        return float(np.nanmax(np.where(size > 0, np.abs(one - other) / size, 0.0), initial=0.0))


def _named(spot: Spot) -> str:
    part = spot.part or "layer"
    return f"{part} ({spot.end})" if spot.part != ATTENTION or spot.end != "out" else ATTENTION
