"""Digests of masks as trace entries: counts that the rules judge, two queries a call.

A digest is read two forwards later: mlx-lm builds the next step while the last one still runs, and must not
be made to wait for it.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator
from typing import Any

from mlxdiag.models.adapter import Geometry
from mlxdiag.models.attention_entries import one_if_equal
from mlxdiag.models.events import AttentionEvent, StepEvent
from mlxdiag.traces.types import Attention, Entry, Row

LATER = 2
"""Forwards."""
NOTE = "mask digest, read later"
UNREAD = -1


class Digests(threading.local):
    """Of the forwards of each thread, those that are not read yet."""

    def __init__(self) -> None:
        self._waiting: deque[tuple[int, StepEvent, list[Row], Geometry | None]] = deque()

    def ready(
        self, step: int, event: StepEvent, rows: list[Row], geometry: Geometry | None
    ) -> Iterator[Entry]:
        """Take a forward; yields the entries of those that must be evaluated by now."""
        self._waiting.append((step, event, rows, geometry))
        while len(self._waiting) > LATER:
            yield from entry_of(*self._waiting.popleft())

    def rest(self) -> Iterator[Entry]:
        """At the end: what this thread still holds."""
        while self._waiting:
            yield from entry_of(*self._waiting.popleft())

    def forget(self) -> None:
        """In the child of a fork: what was noted before it is the parent's to write."""
        self._waiting.clear()


def entry_of(step: int, event: StepEvent, rows: list[Row], geometry: Geometry | None) -> Iterator[Entry]:
    """One entry for a forward with masks; its calls hold nothing but what the digest says."""
    values = [lazy.tolist() for _, lazy in event.digests]
    families = {layer.index: layer.family for layer in geometry.layers} if geometry is not None else {}
    calls: dict[tuple[Any, ...], Attention] = {}
    for call in event.attention:
        if call.digest is not None:
            family = families.get(call.layer) if call.layer is not None else None
            key = (family, call.digest)
            if key not in calls:
                calls[key] = _call(call, family, values[call.digest], rows)
    if calls:
        names = [Row(seq=row.seq) for row in rows]
        yield Entry(
            step=step,
            phase="note",
            model=event.model,
            rows=names,
            attention=list(calls.values()),
            note=NOTE,
        )


def _call(
    call: AttentionEvent, family: str | None, value: list[list[list[int]]], rows: list[Row]
) -> Attention:
    counted = value if len(value) == len(rows) else value * len(rows)
    visible: list[list[int]] = []
    missing: list[tuple[int, ...]] = []
    future: list[tuple[int, ...]] = []
    for index, (row, (head, tail)) in enumerate(zip(rows, counted, strict=True)):
        # The last query of a right-padded row is padding, whose count says nothing.
        pairs = {0: head} if row.right_padding else {0: head, call.q - 1: tail}
        visible.append([pairs[q][0] if q in pairs else UNREAD for q in range(call.q)])
        start = call.offset[index] if isinstance(call.offset, list) else call.offset
        for query, (count, columns) in pairs.items():
            position = None if start is None else start + query
            shift = _shift(call, position, start, count, columns)
            if shift and position is not None:
                (future if shift > 0 else missing).append((index, query, position + max(shift, 0)))
    return Attention(
        family=family,
        window=call.window,
        offset=one_if_equal(call.offset),
        q=call.q,
        visible=visible,
        missing=missing or None,
        future=future or None,
    )


def _shift(
    call: AttentionEvent, position: int | None, start: int | None, count: int, columns: int
) -> int | None:
    """By how many columns as many keys as are due lie too far on (above 0) or back; None where that cannot
    be said: another count, which the rules judge by itself, or keys that are not in the order of positions.
    """
    ordered = call.q > 1 or call.kind in ("dense", "batch", "quantized")
    if position is None or start is None or call.k is None or not ordered or call.keep or position < 0:
        return None
    due = min(position + 1, call.window or position + 1)
    if count != due:
        return None
    # Columns of positions [position - due + 1, position], when the last column is the last query's.
    newest = position - (start + call.q - call.k)
    return round((columns - due * (2 * newest - due + 1) / 2) / due)
