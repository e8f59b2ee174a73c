"""Which positions each query really attended: the mask that was used times the identity of each returned key.

Exact, without tolerance or weights. What a query at position p must see: on full layers every live position up
to p; on sliding ones `[max(0, p-W+1), p]` (the window counts the query); on chunked ones its own block up to p;
inside a declared bidirectional span the whole span. Pinned sinks are allowed on sliding layers and not required;
on full layers under a key cap those held are required like any live key. Nothing else may be seen.
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
        `first`, `last`: oldest and newest visible position of the query's own sequence, -1 for none; `visible`:
        keys seen, own or not, -1 for padding queries; the lists `missing`, `future`, `padding`, `foreign` of
        (row, query, position); `totals` of these four, of `old` (own keys beyond the window) and of
        `duplicate` (further copies of a position already seen).

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
        low, high = required(
            kind, query_seq[row], query_pos[row], window=window, live_start=starts[row], spans=spans
        )
        seen.row(
            row,
            mask[row if mask.shape[0] > 1 else 0] & query_real[row][:, None],
            key_seq[row],
            key_pos[row],
            query_seq[row],
            query_real[row],
            (low, high),
            keep,
            sinks_required=kind == "full",
        )
    return seen.fields()


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
        self.totals = dict.fromkeys((*self.lists, "old", "duplicate"), 0)

    def row(
        self,
        row: int,
        mask: Bools,
        key_seq: Ints,
        key_pos: Ints,
        query_seq: Ints,
        real: Bools,
        bounds: tuple[Ints, Ints],
        keep: int,
        sinks_required: bool,
    ) -> None:
        pos = key_pos.astype(np.int32)
        low, high = (bound.astype(np.int32)[:, None] for bound in bounds)
        known = key_seq >= 0
        own = mask & known & (key_seq == query_seq[:, None])
        counted = mask.sum(axis=1)
        self.visible.append(np.where(real, counted, -1).tolist())
        oldest = np.where(own, pos, _LATE).min(axis=1, initial=_LATE)
        self.first.append(np.where(oldest == _LATE, -1, oldest).tolist())
        self.last.append(np.where(own, pos, -1).max(axis=1, initial=-1).tolist())
        self._list("padding", row, mask & ~known, pos)
        self._list("foreign", row, mask & known & ~own, pos)
        self._list("future", row, own & (pos > high), pos)
        self.totals["old"] += int((own & (pos < low) & (pos >= keep)).sum())
        again = _copies(own, key_seq, pos)
        self.totals["duplicate"] += int(again.sum())
        inside = (own & ~again & (pos >= low) & (pos <= high)).sum(axis=1)
        lacking = np.where(real, bounds[1] - bounds[0] + 1 - inside, 0)
        held = pos[known & (pos < keep)] if sinks_required else pos[:0]
        self._missing(row, own, pos, bounds, lacking, real, np.unique(held), key_seq, query_seq)

    def _list(self, name: str, row: int, hits: Bools, pos: Ints) -> None:
        total = int(hits.sum())
        self.totals[name] += total
        found = self.lists[name]
        if total and len(found) < self.limit:
            queries = np.flatnonzero(hits.any(axis=1))[: self.limit]
            for query in queries:
                for column in np.flatnonzero(hits[query]):
                    if len(found) == self.limit:
                        return
                    found.append((row, int(query), int(pos[column])))

    def _missing(
        self,
        row: int,
        own: Bools,
        pos: Ints,
        bounds: tuple[Ints, Ints],
        lacking: Ints,
        real: Bools,
        sinks: Ints,
        key_seq: Ints,
        query_seq: Ints,
    ) -> None:
        self.totals["missing"] += int(np.maximum(lacking, 0).sum())
        for query in np.flatnonzero(lacking > 0):
            if len(self.lists["missing"]) == self.limit:
                break
            wanted = np.arange(bounds[0][query], bounds[1][query] + 1)
            self._lacking(row, int(query), np.setdiff1d(wanted, pos[own[query]]))
        for sink in sinks:
            columns = pos == sink
            for query in np.flatnonzero(real & (bounds[0] > sink)):
                held = columns & (key_seq == query_seq[query])
                if held.any() and not own[query][held].any():
                    self.totals["missing"] += 1
                    self._lacking(row, int(query), np.array([sink]))

    def _lacking(self, row: int, query: int, positions: Ints) -> None:
        found = self.lists["missing"]
        for position in positions[: self.limit - len(found)]:
            found.append((row, query, int(position)))

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
