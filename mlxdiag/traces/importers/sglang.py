"""SGLang's scheduler lines: `[date time TP0] Prefill batch. #new-seq: 2, #new-token: 4096, ...`."""

from __future__ import annotations

import re

from mlxdiag.traces.importers import shapes
from mlxdiag.traces.importers.draft import number
from mlxdiag.traces.importers.importer import KNOWN, TAKEN, UNKNOWN, Importer
from mlxdiag.traces.importers.records import Record
from mlxdiag.traces.types import Row

_HEAD = re.compile(r"\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?: (?:DP|TP|PP|EP)\d+)*\] ")
_BATCH = re.compile(r"\b(Prefill|Decode) batch\b")
_COUNT = re.compile(r"#([a-z-]{1,30}): (\d{1,12})")


class Sglang(Importer):
    """Nothing is remembered: the lines name no request, so that only a batch of one can be followed."""

    name = "sglang"
    program = "sglang"

    def take(self, record: Record) -> int:
        text = record.text
        batch = _BATCH.search(text)
        counts = {name: number(value) for name, value in _COUNT.findall(text)}
        if record.value is not None or not (_HEAD.search(text) or (batch and "running-req" in counts)):
            return UNKNOWN
        if batch and batch[1] == "Prefill" and counts.get("new-token"):
            self._prefill(counts)
            return TAKEN
        told = shapes.read(text) if "NaN" in text else None
        if told is None:
            return KNOWN
        self.draft.step("note").error = told.fault("sampling")
        return TAKEN

    def _prefill(self, counts: dict[str, int | None]) -> None:
        new, cached, sequences = counts["new-token"], counts.get("cached-token"), counts.get("new-seq")
        step = self.draft.step("chunk" if cached else "prefill")
        if sequences == 1:
            step.rows = [Row(tokens=new, offset=cached)]
            step.infer("rows.offset", "the batch's cached tokens, since it has one sequence")
            return
        step.note(f"{sequences} sequences, {new} tokens after {cached or 0} stored; no lengths by row")
