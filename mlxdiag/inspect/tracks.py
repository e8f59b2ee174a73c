"""Sequences in steady decode: their steps are counted here, and booked with the others' state later.

A plain decode step of a sequence with nothing outstanding tells the rules nothing beyond "one token more".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mlxdiag.inspect.sequences import Sequences
    from mlxdiag.inspect.tokens import Key
    from mlxdiag.traces.types import Entry, Row

_BOUND = 4096
_PENDING = 2048
"""Steps that may wait to be booked; the ids they emitted are held until then."""


class Track:
    """One sequence: where it must be, and what waits to be booked."""

    __slots__ = ("classes", "ids", "key", "named", "position", "steps")

    def __init__(self, key: Key, position: int, row: Row) -> None:
        self.key = key
        self.position = position
        self.classes = row.classes
        self.named = row.ids is not None
        self.steps = 0
        self.ids: list[int] = []

    def count(self, row: Row, at: int | None) -> bool:
        """One token more, if the row is the next one and records what the last one did."""
        if (
            at != self.position
            or row.tokens != 1
            or row.classes != self.classes
            or row.finish is not None
            or row.drafted is not None
            or row.right_padding is not None
            or row.phase is not None
        ):
            return False
        ids = row.ids
        if ids is not None:
            if not self.named:
                return False
            self.ids.append(ids[0])
        elif self.named or (self.classes is None and row.emitted is not None):
            return False
        self.position += 1
        self.steps += 1
        return True

    def uncount(self) -> None:
        """Take the last token back."""
        self.position -= 1
        self.steps -= 1
        if self.named:
            self.ids.pop()


class Tracks:
    """Stateful beside `Sequences`; every entry that is not a steady decode must `flush` it first."""

    def __init__(self, sequences: Sequences) -> None:
        self.sequences = sequences
        self._known: dict[Key, Track] = {}
        self._waiting: list[Track] = []
        """Those with steps to book, so that a flush costs nothing for the thousands that rest."""
        self._latest: Track | None = None

    def decode(self, entry: Entry) -> bool:
        """Count a decode entry whose calls are healthy. False, with nothing counted, if it is not steady."""
        rows, calls = entry.rows, entry.attention
        if not rows or not calls:
            return False
        offset = calls[0].offset
        if len(rows) > 1:
            return self._batch(entry.model, rows, offset)
        row, track = rows[0], self._latest
        if track is None or row.seq != track.key[1] or entry.model != track.key[0]:
            track = self._latest = self._find((entry.model, row.seq), row)
        if track is None or not track.count(row, offset[0] if offset.__class__ is list else offset):  # type: ignore[arg-type]
            return False
        if track.steps == 1:
            self._waiting.append(track)
        elif track.steps >= _PENDING:
            self.flush()
        return True

    def _batch(self, model: str | None, rows: list[Row], offset: int | list[int] | None) -> bool:
        """All rows or none. Rows without a name cannot be told apart."""
        counted: list[Track] = []
        for index, row in enumerate(rows):
            track = None if row.seq is None else self._find((model, row.seq), row)
            if track is None or not track.count(row, offset[index] if isinstance(offset, list) else offset):
                for other in counted:
                    other.uncount()
                return False
            counted.append(track)
        self._waiting += [track for track in counted if track.steps == 1]
        if counted[0].steps >= _PENDING:
            self.flush()
        return True

    def _find(self, key: Key, row: Row) -> Track | None:
        track = self._known.get(key)
        if track is None and len(self._known) < _BOUND and _text(row):
            position = self.sequences.steady(key, emits=row.classes is not None)
            if position is not None:
                track = self._known[key] = Track(key, position, row)
        return track

    def flush(self) -> None:
        """Book what waits. The tracks go on where they are."""
        for track in self._waiting:
            if track.steps:
                tokens = 0 if track.classes is None else track.steps
                self.sequences.advance(track.key, track.steps, tokens, track.ids if track.named else None)
                track.steps = 0
                track.ids = []
        self._waiting.clear()

    def leave(self, entry: Entry, forward: bool) -> None:
        """Book what waits and forget the rows of an entry that others will read; after an event, all."""
        self.flush()
        self._latest = None
        if not forward or entry.rows is None or len(self._known) >= _BOUND:
            self._known.clear()
        else:
            for row in entry.rows:
                self._known.pop((entry.model, row.seq), None)


def _text(row: Row) -> bool:
    """Whether the row emits plain text, or nothing at all."""
    return row.classes == "t" or (row.classes is None and row.ids is None and row.emitted is None)
