"""Python tracebacks with shapes, of mlx, torch and whatever serves them; also inside prefixed log lines."""

from __future__ import annotations

import re

from mlxdiag.traces.importers import shapes
from mlxdiag.traces.importers.crashes import crash, where_of
from mlxdiag.traces.importers.draft import Draft
from mlxdiag.traces.importers.importer import KNOWN, TAKEN, UNKNOWN, Importer
from mlxdiag.traces.importers.records import Record

_START = re.compile(r"Traceback \(most recent call last\)")
_FRAME = re.compile(r"File \"([^\"]{1,1000})\", line \d{1,9}, in ([\w.<>]{1,100})")
_ERROR = re.compile(r"\b(?:[A-Za-z_][\w.]{0,80}(?:Error|Exception|Exit)|std::\w{1,40}): ")
_BARE = re.compile(r"\b(?:ValueError|RuntimeError|IndexError|TypeError|AttributeError|NotImplementedError): ")
_CHAIN = re.compile(r"During handling of the above exception|The above exception was the direct cause")
_SOURCE = re.compile(r"^\s{2,}|\]\s{4,}\S|^\s*[\^~]+\s*$")
_LONGEST = 400
"""Lines of one traceback; without its error by then it is cut off."""


class Traceback(Importer):
    """Remembers the innermost frame that may be named until the error line comes."""

    name = "traceback"

    def __init__(self, draft: Draft) -> None:
        super().__init__(draft)
        self.inside = 0
        self.where: str | None = None
        self.seen: set[tuple[str, str | None]] = set()
        """What was told in this chain: the same error is printed again when it is wrapped."""

    def take(self, record: Record) -> int:
        text = record.text
        if record.value is not None:
            return UNKNOWN
        if _START.search(text):
            if self.inside == 0:
                self.seen.clear()
            self.inside, self.where = _LONGEST, None
            return KNOWN
        frame = _FRAME.search(text)
        if frame:
            self.inside = self.inside or _LONGEST
            self.where = where_of(frame[1], frame[2]) or self.where
            return KNOWN
        if _CHAIN.search(text):
            self.inside = _LONGEST
            return KNOWN
        if not self.inside:
            return self._error(text) if _BARE.search(text) else UNKNOWN
        self.inside -= 1
        if _ERROR.search(text) and not _SOURCE.match(text):
            return self._error(text)
        return KNOWN if _SOURCE.search(text) else UNKNOWN

    def _error(self, text: str) -> int:
        told = shapes.read(text)
        where, self.where, self.inside = self.where, None, 0
        if told is None:
            return KNOWN
        key = (told.text, where)
        if key not in self.seen:
            self.seen.add(key)
            crash(self.draft, told, where)
        return TAKEN
