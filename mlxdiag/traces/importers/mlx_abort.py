"""MLX errors outside a Python traceback: an abort through a C++, Rust or C bridge, or the bare message."""

from __future__ import annotations

import re

from mlxdiag.traces.importers import shapes
from mlxdiag.traces.importers.crashes import ABORTED, crash
from mlxdiag.traces.importers.draft import Draft
from mlxdiag.traces.importers.importer import KNOWN, TAKEN, UNKNOWN, Importer
from mlxdiag.traces.importers.records import Record

_TERMINATING = re.compile(
    r"libc\+\+abi: terminating|terminating due to uncaught exception|terminate called after throwing"
)
_STOPPED = re.compile(
    r"fatal runtime error: Rust cannot catch foreign exceptions|panicked at|SIGABRT|Aborted\b|Abort trap"
)
_MESSAGE = re.compile(r"\[[a-z_]+(?:::[a-z_]+)?\] |what\(\):|mask key axis \(")
_NEAR = 3
"""Lines between the word of the abort, its message, and the last words."""


class MlxAbort(Importer):
    """Keeps in mind for a few lines that the program is being terminated."""

    name = "mlx-abort"

    def __init__(self, draft: Draft) -> None:
        super().__init__(draft)
        self.ending = 0

    def take(self, record: Record) -> int:
        text = record.text
        if record.value is not None:
            return UNKNOWN
        terminating = bool(_TERMINATING.search(text))
        self.ending = _NEAR if terminating else max(self.ending - 1, 0)
        told = shapes.read(text) if _MESSAGE.search(text) else None
        if told is None:
            return KNOWN if terminating or (self.ending and _STOPPED.search(text)) else UNKNOWN
        ended = bool(self.ending) or "panicked at" in text
        crash(self.draft, told, exit=ABORTED if ended else None)
        return TAKEN
