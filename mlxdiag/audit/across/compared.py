"""Two runs of one schedule held against each other: logits at every position, visible keys of every query."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import numpy as np

from mlxdiag.audit.across.watched import Key, Place, Watching, views
from mlxdiag.models.events import Seen
from mlxdiag.replay.parity import compare as logits_apart
from mlxdiag.replay.parity import spread
from mlxdiag.replay.tape import position
from mlxdiag.traces.types import Parity

TINY = 1e-30
"""Logits without a spread have nothing to be measured in."""
LISTED = 32
"""Positions, and queries, that a comparison lists; beyond them it counts."""


class Wrong(msgspec.Struct, frozen=True):
    """A position whose logits differ."""

    place: Place
    step: int
    phase: str
    seq: str
    position: int
    by: float
    """The largest difference of its logits, in units of their spread."""


class Unlike(msgspec.Struct, frozen=True):
    """A query that sees other keys in one library than in the other."""

    place: Place
    layer: int
    seq: str
    position: int
    first: tuple[int, ...]
    """Positions that it sees in the first library, ascending; keys of nobody are -1."""
    second: tuple[int, ...]


class Compared(msgspec.Struct, frozen=True, kw_only=True):
    """What two runs have in common, and what not."""

    count: int
    """Positions whose logits were compared."""
    queries: int
    """Queries (of each layer) whose visible keys both sides told."""
    unit: float
    """Standard deviation of the first library's logits."""
    largest: float
    """Largest difference of any logit, in units; infinity where one of them is not a number."""
    tolerance: float
    """In units."""
    wrong: tuple[Wrong, ...]
    """Every position beyond the tolerance, in the order of the schedule."""
    unlike: tuple[Unlike, ...]
    """Queries that see other keys, in the order of the schedule, a few of each layer and sequence."""
    margin: float | None = None
    """The first library's top two at the first wrong position lie so far apart, in logits."""
    parities: dict[Place, Parity] = {}
    """Of every row of every forward, as a trace of the second library writes it; the reference is unnamed."""

    @property
    def first(self) -> Wrong | None:
        """The first wrong position."""
        return self.wrong[0] if self.wrong else None


def compare(first: Watching, second: Watching, tolerance: float) -> Compared:
    """Hold two runs of one plan against each other, as far as both came."""
    places = sorted(first.told.keys() & second.told.keys())
    unit = spread(np.concatenate([first.told[at].logits for at in places])) if places else 0.0
    wrong: list[Wrong] = []
    parities: dict[Place, Parity] = {}
    largest, count, margin = 0.0, 0, None
    for at in places:
        ours, theirs = first.told[at], second.told[at]
        found = logits_apart(theirs.logits, ours.logits, list(range(len(ours.positions))), tolerance * unit)
        parity = found.record("")
        if found.wrong:
            margin = found.margin if not wrong else margin
            parity = msgspec.structs.replace(parity, first=ours.positions[found.wrong[0]])
        parities[at] = parity
        count += found.count
        largest = max(largest, found.max_abs / max(unit, TINY))
        with np.errstate(invalid="ignore"):
            by = np.abs(ours.logits - theirs.logits).max(axis=-1) / max(unit, TINY)
        wrong += [
            Wrong(at, ours.step, ours.phase, ours.seq, ours.positions[index], float(by[index]))
            for index in found.wrong
        ]
    unlike, queries = _views(first, second)
    return Compared(
        count=count,
        queries=queries,
        unit=unit,
        largest=largest,
        tolerance=tolerance,
        wrong=tuple(wrong),
        unlike=unlike,
        margin=margin,
        parities=parities,
    )


def _views(first: Watching, second: Watching) -> tuple[tuple[Unlike, ...], int]:
    found: list[Unlike] = []
    listed: dict[tuple[int, str], int] = {}
    queries = 0
    for op, layers in sorted(first.seen.items()):
        others = second.seen.get(op, {})
        for layer in sorted(layers.keys() & others.keys()):
            for one in _unlike(first, op, layer, layers[layer], others[layer]):
                if isinstance(one, int):
                    queries += one
                elif listed.get((layer, one.seq), 0) < LISTED:
                    listed[layer, one.seq] = listed.get((layer, one.seq), 0) + 1
                    found.append(one)
    return tuple(found), queries


def _unlike(run: Watching, op: int, layer: int, ours: Seen, theirs: Seen) -> Iterator[Unlike | int]:
    """Queries of one layer's call that see other keys, and the number of those that were compared."""
    names = {number: seq for seq, number in run.numbers.items()}
    for row in range(len(ours.query_seq)):
        one, other = views(ours, row), views(theirs, row)
        both = sorted(one.keys() & other.keys())
        yield len(both)
        for code in both:
            if one[code] != other[code]:
                seq = names.get(int(ours.query_seq[row]), "")
                sides = (_positions(one[code]), _positions(other[code]))
                yield Unlike(Place(op, row), layer, seq, position(code), *sides)


def _positions(keys: frozenset[Key]) -> tuple[int, ...]:
    return tuple(sorted(position(code) if seq >= 0 else -1 for seq, code in keys))
