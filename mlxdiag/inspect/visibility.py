"""Which positions each query really attended: the mask that was used times the identity of each returned key.

Exact, without tolerance or weights. What a query at position p must see: on full layers every live position
up to p; on sliding ones `[max(0, p-W+1), p]` (the window counts the query); on chunked ones its own block
up to p; inside a declared bidirectional span the whole span. Pinned sinks are allowed on sliding layers and
not required; on full layers under a key cap those held are required like any live key. Nothing else may be
seen.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

LIMIT = 64
"""Triples kept in each list; `totals` counts them all."""

Ints = NDArray[np.integer[Any]]
Bools = NDArray[np.bool_]
Span = tuple[int, int, int]
"""(sequence, first position, position after the last) of tokens that see each other both ways."""

_LATE = np.iinfo(np.int32).max


def required(
    kind: str,
    seq: Ints,
    pos: Ints,
    *,
    window: int | None = None,
    live_start: int = 0,
    spans: Sequence[Span] = (),
) -> tuple[Ints, Ints]:
    """Oldest and newest position that each query must see, both included; everything between them too.

    Args:
        kind: full, sliding or chunked.
        seq, pos: sequence and position of each query, `[q]`.
        window: of the attention, for sliding and chunked layers.
        live_start: oldest position still held; older ones were dropped on purpose.

    Raises:
        ValueError: a sliding or chunked layer without a window, or an unknown kind.
    """
    if kind == "full":
        low = np.zeros_like(pos)
    elif window is None or window < 1 or kind not in ("sliding", "chunked"):
        raise ValueError(f"kind {kind!r} with window {window!r} says nothing about what must be seen")
    elif kind == "sliding":
        low = np.maximum(pos - window + 1, 0)
    else:
        low = pos // window * window
    low, high = np.maximum(low, live_start), pos.copy()
    for owner, start, stop in spans:
        inside = (seq == owner) & (pos >= start) & (pos < stop)
        low = np.where(inside, np.minimum(low, max(start, live_start)), low)
        high = np.where(inside, np.maximum(high, stop - 1), high)
    return low, high


def observe(
    mask: Bools,
    key_seq: Ints,
    key_pos: Ints,
    query_seq: Ints,
    query_pos: Ints,
    query_real: Bools,
    *,
    kind: str,
    window: int | None = None,
    live_start: int | Sequence[int] | None = None,
    keep: int = 0,
    spans: Sequence[Span] = (),
    limit: int = LIMIT,
) -> dict[str, Any]:
    """The visibility fields of `traces.types.Attention` for one attention call.

    Args:
        mask: `[B or 1, q, K]`, true where the query attends the key.
        key_seq: `[B, K]`, the sequence of each returned key; -1 for padding and for keys of unknown origin.
        key_pos: `[B, K]`, its absolute position.
        query_seq, query_pos: `[B, q]`.
        query_real: `[B, q]`, false for padding queries, of which nothing is asked.
        live_start: oldest position still held, for all rows or one a row; default 0.
        keep: pinned sinks, positions `0..keep-1`.

    Returns:
        `first`, `last`: oldest and newest visible position of the query's own sequence, -1 for none;
        `visible`: keys seen, own or not, -1 for padding queries; the lists `missing`, `future`, `padding`,
        `foreign` of (row, query, position); `totals` of these four, of `old` (own keys beyond the window),
        of `duplicate` (further copies of a position already seen), and how many queries see padding
        (`padding_queries`) or a wrong set of positions, padding apart (`wrong_queries`).

    Raises:
        ValueError: axes that do not agree, or see `required`.
    """
    rows, queries = query_pos.shape
    shapes = {"key_seq": key_seq.shape, "key_pos": key_pos.shape}
    wanted = (rows, mask.shape[-1])
    if mask.ndim != 3 or mask.shape[0] not in (1, rows) or mask.shape[1] != queries:
        raise ValueError(f"mask {mask.shape} does not fit {rows} rows of {queries} queries")
    if any(shape != wanted for shape in shapes.values()):
        raise ValueError(f"keys {shapes} do not fit mask {mask.shape} and {rows} rows")
    starts = [live_start or 0] * rows if live_start is None or isinstance(live_start, int) else live_start
    seen = _Seen(limit)
    for row in range(rows):
        view = _Row(
            mask[row if mask.shape[0] > 1 else 0] & query_real[row][:, None],
            key_seq[row],
            key_pos[row].astype(np.int32),
            query_seq[row],
            query_real[row],
        )
        low, high = required(
            kind, view.seq, query_pos[row], window=window, live_start=starts[row], spans=spans
        )
        seen.take(row, view, low, high, keep, sinks_required=kind == "full")
    return seen.fields()


class _Row:
    """One batch row: which keys each query sees, split by whose they are. All `[q, K]` unless named."""

    def __init__(self, mask: Bools, key_seq: Ints, key_pos: Ints, query_seq: Ints, real: Bools) -> None:
        self.key_seq, self.pos, self.seq, self.real = key_seq, key_pos, query_seq, real
        known = key_seq >= 0
        self.mask = mask
        self.padding = mask & ~known
        self.own = mask & known & (key_seq == query_seq[:, None])
        self.foreign = mask & known & ~self.own
        self.again = _copies(self.own, key_seq, key_pos)


class _Seen:
    """Collects row by row; lists stop at the limit, totals do not."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.first: list[list[int]] = []
        self.last: list[list[int]] = []
        self.visible: list[list[int]] = []
        self.lists: dict[str, list[tuple[int, int, int]]] = {
            name: [] for name in ("missing", "future", "padding", "foreign")
        }
        counters = ("old", "duplicate", "padding_queries", "wrong_queries")
        self.totals = dict.fromkeys((*self.lists, *counters), 0)

    def take(self, row: int, view: _Row, low: Ints, high: Ints, keep: int, sinks_required: bool) -> None:
        """Add a row whose queries must see `low` to `high`."""
        own, pos = view.own, view.pos
        self.visible.append(np.where(view.real, view.mask.sum(axis=1), -1).tolist())
        oldest = np.where(own, pos, _LATE).min(axis=1, initial=_LATE)
        self.first.append(np.where(oldest == _LATE, -1, oldest).tolist())
        self.last.append(np.where(own, pos, -1).max(axis=1, initial=-1).tolist())
        late, early = pos > high.astype(np.int32)[:, None], pos < low.astype(np.int32)[:, None]
        future, old = own & late, own & early & (pos >= keep)
        self._list("padding", row, view.padding, pos)
        self._list("foreign", row, view.foreign, pos)
        self._list("future", row, future, pos)
        inside = (own & ~view.again & ~early & ~late).sum(axis=1)
        lacking = np.where(view.real, np.maximum(high - low + 1 - inside, 0), 0)
        self._missing(row, view, low, high, lacking)
        sinks = self._sinks(row, view, low, keep) if sinks_required else np.zeros_like(view.real)
        wrong = (old | view.again | future | view.foreign).any(axis=1) | (lacking > 0) | sinks
        self.totals["old"] += int(old.sum())
        self.totals["duplicate"] += int(view.again.sum())
        self.totals["padding_queries"] += int(view.padding.any(axis=1).sum())
        self.totals["wrong_queries"] += int(wrong.sum())

    def _list(self, name: str, row: int, hits: Bools, pos: Ints) -> None:
        total = int(hits.sum())
        self.totals[name] += total
        found = self.lists[name]
        if total and len(found) < self.limit:
            for query in np.flatnonzero(hits.any(axis=1)):
                for column in np.flatnonzero(hits[query]):
                    if len(found) == self.limit:
                        return
                    found.append((row, int(query), int(pos[column])))

    def _missing(self, row: int, view: _Row, low: Ints, high: Ints, lacking: Ints) -> None:
        self.totals["missing"] += int(lacking.sum())
        for query in np.flatnonzero(lacking):
            if len(self.lists["missing"]) >= self.limit:
                return
            wanted = np.arange(low[query], high[query] + 1)
            self._lacking(row, int(query), np.setdiff1d(wanted, view.pos[view.own[query]]))

    def _sinks(self, row: int, view: _Row, low: Ints, keep: int) -> Bools:
        """Queries that do not see a pinned sink which the cache holds for their sequence."""
        lacking = np.zeros_like(view.real)
        for sink in np.unique(view.pos[(view.key_seq >= 0) & (view.pos < keep)]):
            for query in np.flatnonzero(view.real & (low > sink)):
                held = (view.pos == sink) & (view.key_seq == view.seq[query])
                if held.any() and not view.own[query][held].any():
                    lacking[query] = True
                    self.totals["missing"] += 1
                    self._lacking(row, int(query), np.array([sink]))
        return lacking

    def _lacking(self, row: int, query: int, positions: Ints) -> None:
        found = self.lists["missing"]
        found.extend((row, query, int(position)) for position in positions[: self.limit - len(found)])

    def fields(self) -> dict[str, Any]:
        return {
            "first": self.first,
            "last": self.last,
            "visible": self.visible,
            **self.lists,
            "totals": self.totals,
        }


def _copies(own: Bools, key_seq: Ints, pos: Ints) -> Bools:
    """Visible keys whose position the query sees at an earlier column too: a stale copy in the cache."""
    again = np.zeros_like(own)
    _, group, sizes = np.unique(np.stack([key_seq, pos]), axis=1, return_inverse=True, return_counts=True)
    group = group.reshape(-1)
    for repeated in np.flatnonzero(sizes > 1):
        columns = np.flatnonzero(group == repeated)
        if key_seq[columns[0]] < 0:
            continue
        seen = own[:, columns]
        again[:, columns] = seen & (np.cumsum(seen, axis=1) > 1)
    return again
