"""mlx_lm.server: `asctime - LEVEL - message`. At DEBUG it writes whole request bodies, which stay out."""

from __future__ import annotations

import re

from mlxdiag.traces.importers.draft import Draft, number
from mlxdiag.traces.importers.importer import KNOWN, TAKEN, UNKNOWN, Importer
from mlxdiag.traces.importers.records import Record
from mlxdiag.traces.types import Row

_HEAD = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} - (?:DEBUG|INFO|WARNING|ERROR|CRITICAL) - ")
_PROGRESS = re.compile(r"Prompt processing progress: (\d{1,12})/(\d{1,12})")
_CACHE = re.compile(r"Prompt Cache: \d+ sequences|KV Caches: |Starting httpd at")


class MlxLmServer(Importer):
    """Counts each prompt's pieces. Prompts are told apart by their length, the only mark a line has."""

    name = "mlx-lm-server"
    program = "mlx_lm.server"

    def __init__(self, draft: Draft) -> None:
        super().__init__(draft)
        self.at: dict[int, tuple[str, int]] = {}
        self.count = 0

    def take(self, record: Record) -> int:
        if record.value is not None:
            return UNKNOWN
        progress = _PROGRESS.search(record.text)
        if progress:
            return self._piece(number(progress[1]) or 0, number(progress[2]) or 0)
        return KNOWN if _HEAD.search(record.text) or _CACHE.match(record.text) else UNKNOWN

    def _piece(self, done: int, total: int) -> int:
        if done > total or not total:
            return KNOWN
        seq, before = self.at.get(total, ("", 0))
        if not seq or done < before:
            self.count += 1
            seq, before = f"req-{self.count}", 0
        self.at[total] = (seq, done)
        if done == before:
            return KNOWN
        step = self.draft.step("chunk" if before else "prefill")
        step.rows = [Row(seq=seq, tokens=done - before, total=total)]
        step.infer("rows.tokens", "the progress since the line before")
        step.infer("rows.seq", "prompts are told apart by their length")
        if done == total:
            del self.at[total]
        return TAKEN
