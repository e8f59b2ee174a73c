"""LM Studio's log: an error with the frames after it, in a list that begins with `At:`.

The lines between are bodies of requests, which stay out.
"""

from __future__ import annotations

import re

from mlxdiag.traces.importers import shapes
from mlxdiag.traces.importers.crashes import crash, where_of
from mlxdiag.traces.importers.draft import Draft
from mlxdiag.traces.importers.importer import KNOWN, TAKEN, UNKNOWN, Importer
from mlxdiag.traces.importers.records import Record

_HEAD = re.compile(r"^\[?\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d{1,6})?\]?\s*\[(?i:error|warn|info|debug)\]")
_FRAME = re.compile(r"^\s*(\S.{0,1000}?)\((\d{1,9})\): ([\w.<>]{1,100})\s*$")
_AT = re.compile(r"^\s*At:\s*$")
_BODY = 2000
"""Lines that may follow a head."""


class LmStudio(Importer):
    """Holds an error back until its frames have been read: the first of them is the innermost."""

    name = "lm-studio"
    program = "lm-studio"

    def __init__(self, draft: Draft) -> None:
        super().__init__(draft)
        self.body = 0
        self.told: shapes.Told | None = None
        self.where: str | None = None
        self.frames = False

    def take(self, record: Record) -> int:
        text = record.text
        if record.value is not None:
            return KNOWN if self.body else UNKNOWN
        if _HEAD.match(text):
            self.close()
            self.body = _BODY
            return self._read(text)
        if not self.body:
            return UNKNOWN
        self.body -= 1
        if _AT.match(text) and self.told is not None:
            self.frames = True
            return KNOWN
        frame = _FRAME.match(text) if self.frames else None
        if frame:
            self.where = self.where or where_of(frame[1], frame[3])
            return KNOWN
        if self.frames:
            self.close()
            return UNKNOWN
        return self._read(text) if self.told is None and "Traceback (" not in text else UNKNOWN

    def close(self) -> None:
        """Write the error that was held back."""
        told, where = self.told, self.where
        self.told, self.where, self.frames, self.body = None, None, False, 0
        if told is not None:
            crash(self.draft, told, where)

    def _read(self, text: str) -> int:
        self.told = shapes.read(text)
        return TAKEN if self.told is not None else KNOWN if _HEAD.match(text) else UNKNOWN
