"""Tokens that sequences have emitted, until a line of the trace carries them."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from mlxdiag.record.labels import Labels
from mlxdiag.record.watched import Models
from mlxdiag.traces.types import Row


class Spoken(msgspec.Struct):
    """Tokens of one sequence that wait for its next line."""

    ids: list[int]
    total: int | None = None
    """Length of its prompt, until it has been written."""
    model: str | None = None
    """The model whose line is to carry them; None: any."""


class Speech:
    """Stateful, one for each recorder."""

    def __init__(self, models: Models, labels: Labels) -> None:
        self._models = models
        self._labels = labels
        self._spoken: dict[str, Spoken] = {}

    def said(self, seq: str, ids: Iterable[int], total: int | None, model: str | None) -> None:
        """Tokens of a sequence, in order."""
        spoken = self._spoken.get(seq)
        if spoken is None:
            spoken = self._spoken[seq] = Spoken([], total, model)
        spoken.ids.extend(ids)

    def carried(self, rows: list[Row], model: str | None) -> list[Row]:
        """The rows of a line, with the tokens that their sequences have emitted since their last one."""
        return [self._row(row, model) for row in rows] if self._spoken else rows

    def rest(self) -> list[tuple[str, str | None]]:
        """Sequences whose tokens no line has carried, and the model that is to."""
        return [(seq, spoken.model) for seq, spoken in self._spoken.items()]

    def forget(self) -> None:
        self._spoken.clear()

    def _row(self, row: Row, model: str | None) -> Row:
        spoken = self._spoken.get(row.seq or "")
        if spoken is None or (None not in (spoken.model, model) and spoken.model != model):
            return row
        del self._spoken[row.seq or ""]
        watched = self._models.get(model) or self._models.any()
        return msgspec.structs.replace(
            row,
            emitted=len(spoken.ids),
            classes=self._labels.classes(spoken.ids, watched.tokens if watched is not None else None),
            ids=self._labels.ids(spoken.ids),
            total=row.total if row.total is not None else spoken.total,
        )
