"""What a server tells its batch caches before it feeds right-padded rows. Pure."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from mlxdiag.replay.ops import Event, Forward, Op


class Announced(msgspec.Struct, frozen=True):
    """For one batch, row by row: the real tokens and then the padding that the next forwards feed."""

    lengths: tuple[int, ...]
    right: tuple[int, ...]


def announced(ops: Sequence[Op]) -> dict[int, Announced]:
    """By place of the op: what is announced before it.

    The library announces a whole prompt once, before the first of its chunks, and finalizes after the last.
    Padded forwards that no finalize follows are announced one by one.
    """
    found: dict[int, Announced] = {}
    covered: set[int] = set()
    for place, op in enumerate(ops):
        if isinstance(op, Event) and op.phase == "finalize":
            series = _before(ops, place, set(op.seqs))
            covered |= set(series)
            if series:
                found[series[-1]] = _totals([ops[at] for at in series])
    for place, op in enumerate(ops):
        if isinstance(op, Forward) and op.finalize_pending and place not in covered:
            found[place] = _totals([op])
    return {place: told for place, told in found.items() if any(told.right)}


def _before(ops: Sequence[Op], end: int, seqs: set[str]) -> list[int]:
    """The forwards of this batch that one finalize is for, latest first."""
    series = []
    for place in range(end - 1, -1, -1):
        op = ops[place]
        if not isinstance(op, Forward):
            break
        fed = {feed.seq for feed in op.feeds}
        if not fed & seqs:
            continue
        decode = op.width == 1 and not any(feed.right for feed in op.feeds)
        if fed != seqs or decode:
            break
        series.append(place)
    return series


def _totals(forwards: Sequence[Op]) -> Announced:
    rows = [feed.seq for op in forwards[-1:] if isinstance(op, Forward) for feed in op.feeds]
    lengths, right = dict.fromkeys(rows, 0), dict.fromkeys(rows, 0)
    for op in forwards:
        for feed in op.feeds if isinstance(op, Forward) else ():
            lengths[feed.seq] += feed.tokens
            right[feed.seq] += feed.right
    return Announced(tuple(lengths.values()), tuple(right.values()))
