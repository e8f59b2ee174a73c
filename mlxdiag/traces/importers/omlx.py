"""oMLX: `asctime - logger - LEVEL - [request] - message`."""

from __future__ import annotations

import re

from mlxdiag.traces.importers.draft import Draft, number
from mlxdiag.traces.importers.importer import KNOWN, TAKEN, UNKNOWN, Importer
from mlxdiag.traces.importers.records import Record
from mlxdiag.traces.types import Attention, Row

_HEAD = re.compile(r"\bomlx[\w.]{0,80} - (?:TRACE|DEBUG|INFO|WARNING|ERROR) - ")
_SNAPSHOT = re.compile(
    r"Normalized (\w{0,30}Cache) snapshot: len (\d{1,12})->(\d{1,12}), idx (\d{1,12})->(\d{1,12}), "
    r"offset=(\d{1,12}), max_size=(\d{1,12})"
)
_RESTORE = re.compile(
    r"Prefix cache restore for (\S{1,100}): source=\w{1,30} cached=(\d{1,12}) suffix=(\d{1,12})"
)
_REUSED = re.compile(r"request (\S{1,100}) re-prefills (\d{1,12}) of (\d{1,12}) tokens \(reused (\d{1,12})\)")
_FALLBACK = re.compile(r"(?:falling back to|forcing) (?:full|cold) (?:prefill|prompt)", re.IGNORECASE)


class Omlx(Importer):
    """State: the snapshot that lines of further layers, which are equal, belong to."""

    name = "omlx"
    program = "omlx"

    def __init__(self, draft: Draft) -> None:
        super().__init__(draft)
        self.saved: tuple[str, ...] = ()

    def take(self, record: Record) -> int:
        text = record.text
        if record.value is not None or not _HEAD.search(text):
            return UNKNOWN
        snapshot, restore, reused = _SNAPSHOT.search(text), _RESTORE.search(text), _REUSED.search(text)
        if snapshot:
            self._snapshot(snapshot)
        elif restore:
            self._restore(restore)
        elif reused:
            self._reused(reused)
        elif _FALLBACK.search(text):
            self.draft.step("adopt").refused = "a full prefill in place of the stored prefix"
        else:
            return KNOWN
        return TAKEN

    def _snapshot(self, found: re.Match[str]) -> None:
        """A ring cut to its window before it is stored: the buffer's length is that of its newest keys."""
        _, after, _, _, offset, size = (number(part) for part in found.groups()[1:])
        if self.saved == found.groups() and self.draft.steps and self.draft.steps[-1].phase == "save":
            return
        self.saved = found.groups()
        step = self.draft.step("save")
        family = self.draft.family("sliding")
        step.calls = [Attention(family=family, cache="rotating", window=size, offset=offset, buffer=after)]
        step.infer("attention.family", "a rotating cache")

    def _reused(self, found: re.Match[str]) -> None:
        fed, total, kept = (number(part) or 0 for part in found.groups()[1:])
        step = self.draft.step("adopt")
        step.rows = [
            Row(seq=self.draft.seq(found[1]), matched=kept, restored=max(total - fed, 0), total=total)
        ]
        step.infer("rows.restored", "the prompt less what is fed again")

    def _restore(self, found: re.Match[str]) -> None:
        cached, suffix = number(found[2]) or 0, number(found[3]) or 0
        step = self.draft.step("adopt")
        step.rows = [
            Row(seq=self.draft.seq(found[1]), matched=cached, restored=cached, total=cached + suffix)
        ]
        step.infer("rows.restored", "the line says cached, and that the rest is fed")
