"""A trace taken apart into free lengths and formulas, and put together again at other lengths."""

from __future__ import annotations

from typing import Any

import msgspec

from mlxdiag.errors import UnreadableError
from mlxdiag.replay.shrink.numbers import Key, Reading, Variable, Writing
from mlxdiag.replay.shrink.walk import Edits, Memo, Walk
from mlxdiag.traces.types import FORWARD_PHASES, Entry, Trace


class Size(msgspec.Struct, frozen=True, order=True):
    """How large a trace is; compared field by field."""

    tokens: int
    """Fed, padding included."""
    steps: int
    """Forwards and cache events."""
    rest: int = 0
    """The sum of all other lengths: windows, caps, trims."""


class Sketch:
    """What a trace's numbers are made of."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self._memo: Memo = {}
        reading = Reading()
        walk = Walk(trace, reading, Edits(), self._memo)
        walk.header()
        self.numbers = [number for number, _ in walk.entries()]
        self.variables: dict[Key, Variable] = reading.variables
        self._formulas = reading.settled()

    def write(self, edits: Edits) -> Trace | None:
        """The trace with these edits; None where they leave a schedule that cannot be."""
        walk = Walk(self.trace, Writing(edits.values, self._formulas), edits, self._memo)
        try:
            header = walk.header()
            entries = [entry for _, entry in walk.entries()]
        except UnreadableError:
            return None
        return Trace(header, entries, self.trace.warnings, self.trace.truncated)

    def kept(self, edits: Edits) -> list[int]:
        """Numbers of the original's entries that are left."""
        walk = Walk(self.trace, Writing(edits.values, self._formulas), edits, self._memo)
        return [number for number, _ in walk.entries()]

    def steps(self, edits: Edits) -> list[int]:
        """Numbers of the entries that could be dropped."""
        entries = self.trace.entries
        return [number for number in self.kept(edits) if entries[number].kind not in ("model", "end")]

    def sequences(self, edits: Edits) -> list[str]:
        """Sequences that are left, in the order in which they first appear."""
        walk = Walk(self.trace, Writing({}, {}), edits, {})
        entries = self.trace.entries
        found = [
            seq
            for number, entry in enumerate(entries)
            if number not in edits.dropped and entry.rows
            for _, seq, _ in walk.rows(entry)
        ]
        return list(dict.fromkeys(found))


def measure(trace: Trace, windows: int = 0) -> Size:
    """The size of a trace; `windows`: the sum of what else could be smaller."""
    tokens = steps = 0
    for entry in trace.entries:
        if entry.kind in ("model", "end", "note"):
            continue
        steps += 1
        if entry.kind in FORWARD_PHASES:
            tokens += _fed(entry)
    return Size(tokens, steps, windows)


def _fed(entry: Entry) -> int:
    if entry.rows:
        return sum((row.padded or (row.tokens or 0) + (row.right_padding or 0)) for row in entry.rows)
    return next((a.q for a in entry.attention or [] if a.q is not None), 0)


def renumbered(trace: Trace, origin: dict[str, Any]) -> Trace:
    """Steps counted from 1, and a header that says what the trace was made from.

    `of` in the source tells readers that not every step of a run is here.
    """
    entries, step = [], 0
    for entry in trace.entries:
        if entry.step is not None:
            step += 0 if entry.kind == "note" else 1
            entry = msgspec.structs.replace(entry, step=max(step, 1))
        entries.append(entry)
    source = {**(trace.header.source or {}), **origin}
    return Trace(msgspec.structs.replace(trace.header, source=source), entries)
