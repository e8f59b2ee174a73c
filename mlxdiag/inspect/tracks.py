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

_SILENT, _CLASSED, _NAMED = 0, 1, 2
"""What the rows of a track record: nothing emitted, one class letter, one class letter and one id."""


class Track:
    """One sequence: where it must be, and what waits to be booked."""

    __slots__ = ("ids", "position", "records", "steps")

    def __init__(self, position: int, records: int) -> None:
        self.position = position
        self.records = records
        self.steps = 0
        self.ids: list[int] = []


class Tracks:
    """Stateful beside `Sequences`; every entry that is not a steady decode must `flush` it first."""

    def __init__(self, sequences: Sequences) -> None:
        self.sequences = sequences
        self.waiting = 0
        """Steps counted since the last flush."""
        self._known: dict[Key, Track] = {}

    def decode(self, entry: Entry) -> bool:
        """Count a decode entry whose calls are healthy. False, with nothing counted, if it is not steady."""
        rows, calls = entry.rows, entry.attention
        if not rows or not calls:
            return False
        offset = calls[0].offset
        if len(rows) == 1:
            row = rows[0]
            track = self._track(
                (entry.model, row.seq), row, offset[0] if isinstance(offset, list) else offset
            )
            if track is None:
                return False
            _count(track, row)
        else:
            tracks = self._all(entry.model, rows, offset)
            if tracks is None:
                return False
            for track, row in zip(tracks, rows, strict=True):
                _count(track, row)
        if self.waiting >= _PENDING:
            self.flush()
        self.waiting += 1
        return True

    def _all(self, model: str | None, rows: list[Row], offset: int | list[int] | None) -> list[Track] | None:
        """The tracks of a batch; `None` where a row is not steady, or has no name to tell it by."""
        tracks = []
        for index, row in enumerate(rows):
            at = offset[index] if isinstance(offset, list) else offset
            track = None if row.seq is None else self._track((model, row.seq), row, at)
            if track is None:
                return None
            tracks.append(track)
        return tracks

    def flush(self) -> None:
        """Book what waits. The tracks go on where they are."""
        self.waiting = 0
        for key, track in self._known.items():
            if track.steps:
                named = track.records == _NAMED
                tokens = 0 if track.records == _SILENT else track.steps
                self.sequences.advance(key, track.steps, tokens, track.ids if named else None)
                track.steps = 0
                track.ids = []

    def leave(self, entry: Entry, forward: bool) -> None:
        """Book what waits and forget the rows of an entry that others will read; after an event, all."""
        self.flush()
        if not forward or entry.rows is None:
            self._known.clear()
        else:
            for row in entry.rows:
                self._known.pop((entry.model, row.seq), None)

    def _track(self, key: Key, row: Row, at: int | None) -> Track | None:
        """The row's track, if this step is the plain next one."""
        if (
            row.tokens != 1
            or row.finish is not None
            or row.drafted is not None
            or row.phase is not None
            or row.asked is not None
        ):
            return None
        if row.classes is None:
            if row.emitted is not None or row.ids is not None:
                return None
            records = _SILENT
        elif row.classes == "t":
            records = _CLASSED if row.ids is None else _NAMED
        else:
            return None
        track = self._known.get(key)
        if track is None:
            position = self.sequences.steady(key)
            if position is None or len(self._known) >= _BOUND:
                return None
            track = self._known[key] = Track(position, records)
        return track if track.position == at and track.records == records else None


def _count(track: Track, row: Row) -> None:
    track.position += 1
    track.steps += 1
    if row.ids is not None:
        track.ids.append(row.ids[0])
