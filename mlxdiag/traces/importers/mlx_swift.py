"""MLX Swift: errors that its handler turns into a fatal error, and its own preconditions."""

from __future__ import annotations

import re

from mlxdiag.traces.importers import shapes
from mlxdiag.traces.importers.crashes import crash
from mlxdiag.traces.importers.importer import KNOWN, TAKEN, UNKNOWN, Importer
from mlxdiag.traces.importers.records import Record
from mlxdiag.traces.types import Attention

_OWN = re.compile(
    r"\b[A-Za-z]\w{0,40}/\w{1,40}\.swift:\d{1,6}: (?:Fatal error|Precondition failed|Assertion failed)"
)
_WINDOW = re.compile(r"sliding KV length (\d{1,12}) exceeds slidingWindow (\d{1,12})")


class MlxSwift(Importer):
    """One line holds it all."""

    name = "mlx-swift"
    program = "mlx-swift"

    def take(self, record: Record) -> int:
        if record.value is not None or not _OWN.search(record.text):
            return UNKNOWN
        told = shapes.read(record.text)
        if told is None:
            return KNOWN
        window = _WINDOW.search(record.text)
        if window is None:
            crash(self.draft, told)
            return TAKEN
        step = self.draft.step("verify")
        step.refused = "speculation past the sliding window"
        step.calls = [
            Attention(family=self.draft.family("sliding"), window=int(window[2]), live=int(window[1]))
        ]
        step.error = told.fault()
        return TAKEN
