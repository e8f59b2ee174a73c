"""What each query of a call should see against what it did see: the data behind every mask drawing.

Observed where the trace holds visibility; derived from shapes where the mask in effect is known without
having been read; else only what is due. Nothing is guessed: `origin` says which of the three it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from mlxdiag.inspect import effect, geometry
from mlxdiag.inspect.call import Call
from mlxdiag.traces.types import Attention, Row

Interval = tuple[int, int]
"""First and last position, both included."""

OBSERVED, DERIVED, UNSEEN = "observed", "derived", "not observed"

RIGHT, MISSING, OLD, FUTURE, PADDING, FOREIGN, PARTLY, BLANK = (
    "right",
    "missing",
    "old",
    "future",
    "padding",
    "foreign",
    "partly",
    "blank",
)
DUE = "due"
"""Must be seen; whether it was is not observed."""
LISTED = 64
"""Triples that a trace lists at most: a list of that length may go on untold."""
WRONG = (MISSING, OLD, FUTURE, PADDING, FOREIGN)


class Query(msgspec.Struct, frozen=True):
    """One query of a row. Positions are absolute."""

    position: int
    real: bool
    """False for padding, of which nothing is asked."""
    due: Interval | None
    """What it must see; None where the trace does not say what the layer is."""
    seen: tuple[Interval, ...] | None
    """What it saw of its own sequence; empty for nothing at all; None where that is not known."""
    partly: bool = False
    """`seen` holds gaps that the trace does not list."""


class Attended(msgspec.Struct, frozen=True, kw_only=True):
    """One row of one attention call."""

    row: int
    seq: str | None
    family: str | None
    queries: tuple[Query, ...]
    origin: str
    basis: str = ""
    """In words: how the seen positions are known, or why they are not."""
    missing: frozenset[tuple[int, int]] = frozenset()
    """(query, position), as the trace lists them: bounded."""
    future: frozenset[tuple[int, int]] = frozenset()
    padding: frozenset[tuple[int, int]] = frozenset()
    foreign: frozenset[tuple[int, int]] = frozenset()
    totals: dict[str, int] = {}
    """Of the whole call, as the trace counts them."""

    @property
    def span(self) -> Interval | None:
        """Oldest and newest position that is due or seen."""
        ends = [
            position
            for query in self.queries
            for part in ((query.due,) if query.due else ()) + (query.seen or ())
            for position in part
        ]
        ends += [p for _, p in (*self.missing, *self.future) if p >= 0]
        return (min(ends), max(ends)) if ends else None

    @property
    def wrong(self) -> int:
        """Real queries that do not see exactly what they must."""
        stray = {query for query, _ in (*self.padding, *self.foreign, *self.future, *self.missing)}
        return sum(
            1
            for index, query in enumerate(self.queries)
            if query.real and (index in stray or any(kind in WRONG for kind, _ in parts(query)))
        )


def parts(query: Query) -> Iterator[tuple[str, Interval]]:
    """The positions of a query by class, oldest first within each: right, missing, old, future, due."""
    if not query.real:
        return
    if query.seen is None:
        if query.due is not None:
            yield DUE, query.due
        return
    if query.due is None:
        for part in query.seen:
            yield RIGHT, part
        return
    low, high = query.due
    at = low
    for first, last in query.seen:
        if first < low:
            yield OLD, (first, min(last, low - 1))
        if last > high:
            yield FUTURE, (max(first, high + 1), last)
        inside = (max(first, low), min(last, high))
        if inside[0] <= inside[1]:
            if at < inside[0]:
                yield MISSING, (at, inside[0] - 1)
            yield PARTLY if query.partly else RIGHT, inside
            at = inside[1] + 1
    if at <= high:
        yield MISSING, (at, high)


def rows_of(call: Call) -> list[Attended]:
    """Each row of a call; empty where neither its positions nor its queries are known."""
    a, offsets, q = call.attention, call.offsets, call.q
    if offsets is None or q is None or call.kind == "recurrent":
        return []
    return [_row(call, a, row, offset, q) for row, offset in enumerate(offsets)]


def _row(call: Call, a: Attention, row: int, offset: int, q: int) -> Attended:
    rows = call.entry.rows or []
    told = rows[row] if row < len(rows) else Row()
    if a.first and a.last and a.visible and row < min(map(len, (a.first, a.last, a.visible))):
        late = lateness(call, row)
        origin, basis = OBSERVED, "the masks that were used, read"
        if late:
            basis += f"; the call runs at offset {offset}, {late} beyond the tokens' own positions"
        positions = list(range(offset - late, offset - late + q))
        queries = _observed(call, row, positions, _due(call, positions))
    else:
        positions = list(range(offset, offset + _own(call, row, q)))
        due, real = _due(call, positions), _real(told, positions)
        origin, basis, seen = _derived(call, positions, row)
        queries = [
            Query(position, real[i], due[i], seen[i] if seen is not None else None)
            for i, position in enumerate(positions)
        ]
    return Attended(
        row=row,
        seq=told.seq,
        family=call.family,
        queries=tuple(queries),
        origin=origin,
        basis=basis,
        missing=_pairs(a.missing, row),
        future=_pairs(a.future, row),
        padding=_pairs(a.padding, row),
        foreign=_pairs(a.foreign, row),
        totals=a.totals or {},
    )


def _own(call: Call, row: int, q: int) -> int:
    """Queries of one row: all of the call's, but where rows lie end to end in one."""
    tokens = [one.tokens or 0 for one in call.entry.rows or []]
    packed = call.ks is not None and len(tokens) > 1 and sum(tokens) == q
    return tokens[row] if packed and row < len(tokens) else q


def lateness(call: Call, row: int) -> int:
    """How far the call's offset is beyond the real positions of the row's tokens, as after padding left in a
    cache; 0 where the trace does not tell.

    Tokens are told by their content. Each sees itself last, so a first query whose newest key is older than
    the offset says, and that lacks no newer one, is really that older token.
    """
    a, offsets = call.attention, call.offsets
    if offsets is None or not (a.first and a.last and a.visible):
        return 0
    if row >= min(len(offsets), len(a.first), len(a.last), len(a.visible)):
        return 0
    query = next((i for i, count in enumerate(a.visible[row]) if count > 0), None)
    if query is None:
        return 0
    last = a.last[row][query]
    missed = [t[2] for t in a.missing or () if tuple(t[:2]) == (row, query)]
    if last < 0 or len(missed) >= LISTED or any(position > last for position in missed):
        return 0
    return max(offsets[row] + query - last, 0)


def _due(call: Call, positions: Sequence[int]) -> list[Interval | None]:
    kind, start = call.kind or "", call.live_start if call.kind == "full" else 0
    due: list[Interval | None] = []
    for position in positions:
        count = geometry.required_count(kind, position, call.window, start) if position >= 0 else None
        due.append(None if count is None or count < 1 else (position - count + 1, position))
    return due


def _real(row: Row, positions: Sequence[int]) -> list[bool]:
    """Left padding stands below position zero, right padding after the row's real tokens."""
    left = sum(position < 0 for position in positions)
    last = len(positions) if row.tokens is None or row.padded is None else left + row.tokens
    return [position >= 0 and index < last for index, position in enumerate(positions)]


def _observed(call: Call, row: int, positions: Sequence[int], due: Sequence[Interval | None]) -> list[Query]:
    a = call.attention
    first, last, visible = a.first[row], a.last[row], a.visible[row]  # type: ignore[index]
    # The reader of the masks knew more than these numbers tell (spans, evicted keys): its word counts.
    settled = a.totals is not None and a.totals.get("wrong_queries") == 0
    strays = _per_query(a, row)
    queries = []
    for i, position in enumerate(positions[: min(len(first), len(last), len(visible))]):
        count = visible[i]
        own = count - strays.get(i, 0)
        seen, partly = _intervals(first[i], last[i], own, due[i], call.keep)
        wanted = due[i]
        if settled and seen:
            wanted = None if len(seen) > 1 else seen[0]
        queries.append(Query(position, count >= 0, wanted, seen, partly and not settled))
    return queries


def _per_query(a: Attention, row: int) -> dict[int, int]:
    """Keys of a query that are not its own, as far as they are listed."""
    counts: dict[int, int] = {}
    for listed in (a.padding, a.foreign):
        for triple in listed or ():
            if triple[0] == row:
                counts[triple[1]] = counts.get(triple[1], 0) + 1
    return counts


def _intervals(
    first: int, last: int, own: int, due: Interval | None, keep: int
) -> tuple[tuple[Interval, ...], bool]:
    """Seen positions, and whether gaps remain untold: pinned sinks in front are one gap that is known."""
    if own <= 0 or first < 0 or last < first:
        return (), False
    if own >= last - first + 1:
        return ((first, last),), False
    if keep and due is not None and first < keep < due[0] and own == keep - first + last - due[0] + 1:
        return ((first, keep - 1), (due[0], last)), False
    return ((first, last),), True


def _derived(
    call: Call, positions: Sequence[int], row: int
) -> tuple[str, str, list[tuple[Interval, ...]] | None]:
    """What the mask in effect lets through, where its kind says so without its having been read."""
    keys = _keys(call, row, positions[0], len(positions)) if positions else None
    mask = effect.in_effect(call)
    if call.fate == "rejected":
        return UNSEEN, "the call was refused: no attention was computed", None
    if keys is None or mask is None or (call.keep and call.bound is not None):
        return UNSEEN, "the trace holds shapes only", None
    newest = keys[1]
    if mask == effect.NONE:
        return DERIVED, "no mask: every returned key is seen", [(keys,)] * len(positions)
    if mask == effect.CAUSAL:
        seen = [_cut(keys, keys[0], position) for position in positions]
        return DERIVED, f"a plain causal band over the {newest - keys[0] + 1} returned keys", seen
    if mask == effect.WINDOWED and call.window is not None:
        seen = [_cut(keys, position - call.window + 1, position) for position in positions]
        return DERIVED, f"a causal band of {call.window} over the {newest - keys[0] + 1} returned keys", seen
    if mask == effect.OLDEST:
        seen = [_cut(keys, keys[0], keys[0] + i) for i in range(len(positions))]
        return DERIVED, f"no mask: a causal band over the first {len(positions)} returned keys", seen
    sliced = mask == effect.SLICED or (mask == effect.ARRAY and call.fallback == effect.SLICED)
    if sliced and call.m is not None and call.m == call.window:
        held = (max(newest - call.m + 1, keys[0]), newest)
        seen = [_cut(held, held[0], position) for position in positions]
        return DERIVED, f"a capped mask over the newest {call.m} of the returned keys", seen
    return UNSEEN, "the mask's shape is recorded, its content is not", None


def _cut(keys: Interval, low: int, high: int) -> tuple[Interval, ...]:
    first, last = max(keys[0], low), min(keys[1], high)
    return ((first, last),) if first <= last else ()


def _keys(call: Call, row: int, offset: int, q: int) -> Interval | None:
    """Positions of the returned keys, where they are chronological.

    They end with the call's own tokens; those below zero would be padding.
    """
    k = call.ks[row] if call.ks is not None and row < len(call.ks) else call.k
    if k is None or k < 1 or call.cache in ("static", "static_sliding"):
        return None
    return max(offset + q - k, 0), offset + q - 1


def _pairs(triples: Sequence[Sequence[int]] | None, row: int) -> frozenset[tuple[int, int]]:
    return frozenset((t[1], t[2]) for t in triples or () if len(t) == 3 and t[0] == row)
