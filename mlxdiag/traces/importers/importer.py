"""What an importer of one format is."""

from __future__ import annotations

from typing import ClassVar

from mlxdiag.traces.importers.draft import Draft
from mlxdiag.traces.importers.records import Record

UNKNOWN, KNOWN, TAKEN = 0, 1, 2
"""Not of this format; of this format and without anything for a trace; taken over."""


class Importer:
    """Reads the records of one format into the draft that all of them share."""

    name: ClassVar[str]
    program: ClassVar[str | None] = None
    """What `source.program` becomes where the log is this program's own."""

    def __init__(self, draft: Draft) -> None:
        self.draft = draft

    def take(self, record: Record) -> int:
        """UNKNOWN, KNOWN or TAKEN; an UNKNOWN record is offered to the next importer."""
        raise NotImplementedError

    def close(self) -> None:
        """The log is at its end: what was held back is written now."""
