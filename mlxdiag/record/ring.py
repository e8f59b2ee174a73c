"""The flight recorder: two files that take turns, so that the last steps survive whatever ends the program.

Each holds the header, the model entries and up to N entries. What is overwritten is always the older one, so
between N and 2N of the last entries are on disk at any moment, also after SIGKILL, and never more.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from mlxdiag.inspect.inspector import Inspector
from mlxdiag.traces.encode import entry_line, header_text
from mlxdiag.traces.segments import beside, segments, text_of
from mlxdiag.traces.sink import Sink
from mlxdiag.traces.types import Entry, Header

MODELS = 16
"""Model entries repeated in each segment."""
COPIES = 8
"""Frozen copies kept of one recording, so that the disk never fills."""


class Ring:
    """Two alternating segments; a rule that fires freezes a copy."""

    def __init__(
        self, path: Path, header: Callable[[], Header], size: int, opened: Callable[[], None] = lambda: None
    ) -> None:
        self.path = path
        self.size = size
        self.header = header
        self.opened = opened
        self._sink: Sink | None = None
        self._turn = 0
        self._held = 0
        self._models: list[bytes] = []
        self._front = b""
        self._repeated: list[bytes] = []
        """Model entries at the head of the present segment."""
        self._inspector: Inspector | None = None
        self._frozen: list[str] = []

    @property
    def started(self) -> bool:
        return self._inspector is not None

    def put(self, entry: Entry) -> None:
        line = entry_line(entry)
        if entry.phase == "model":
            self._models = [*self._models, line][-MODELS:]
        if self._inspector is None:
            header = self.header()
            self._front = header_text(header)
            self._inspector = Inspector(header)
            self.opened()
        if self._sink is None or self._held >= self.size:
            self._switch()
        assert self._sink is not None
        if entry.phase != "model":
            self._held += 1
            self._sink.put(line)
        elif line not in self._repeated:
            self._sink.put(line)
        self._judge(entry)

    def close(self) -> None:
        if self._sink is not None:
            self._sink.close()

    def freeze(self, mark: str) -> Path | None:
        """Keep a copy of what the ring holds now, as `trace.<mark>.yaml`; None where it is kept already."""
        if mark in self._frozen or len(self._frozen) >= COPIES:
            return None
        self._frozen.append(mark)
        return freeze(self.path, mark)

    def _switch(self) -> None:
        if self._sink is not None:
            self._sink.close()
            self._turn = 1 - self._turn
        self._sink = Sink.create(str(segments(self.path)[self._turn]), force=True)
        self._repeated = list(self._models)
        self._sink.put(self._front + b"".join(self._repeated))
        self._held = 0

    def _judge(self, entry: Entry) -> None:
        assert self._inspector is not None
        for finding in self._inspector.feed(entry):
            if finding.severity != "info":
                self.freeze(finding.code)


def freeze(path: Path, mark: str) -> Path | None:
    """Copy the ring of `path` beside it; None where there is no ring."""
    text = text_of(path)
    if text is None:
        return None
    copy = beside(path, mark)
    copy.write_bytes(text)
    return copy


def join(path: Path) -> bool:
    """Make one trace of the two segments, which are then removed; False where there is no ring."""
    text = text_of(path)
    if text is None:
        return False
    partial = beside(path, f"joining-{os.getpid()}")
    partial.write_bytes(text)
    partial.replace(path)
    for segment in segments(path):
        segment.unlink(missing_ok=True)
    return True
