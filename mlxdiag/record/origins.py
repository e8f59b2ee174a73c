"""Prompt caches that hold tokens before anyone has fed them: handed out by a store, or read from a file.

Whose they are is known at once; which model runs over them only at its first forward.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable

import msgspec

from mlxdiag.models.events import StepEvent
from mlxdiag.traces.types import Entry, Row

BOUND = 4096
"""Caches remembered; beyond it the one that has waited longest is forgotten."""


class Origin(msgspec.Struct, frozen=True):
    """Where the tokens of a prompt cache come from. Lengths count tokens, as in `Row`."""

    phase: str
    """adopt or load."""
    seq: str
    matched: int | None = None
    entry: int | None = None
    trimmed: int | None = None

    def told(self, restored: int | None, model: str | None) -> Entry:
        """The entry, now that it is known what the caches of a model really hold."""
        row = Row(
            seq=self.seq,
            matched=self.matched,
            entry=self.entry,
            trimmed=self.trimmed,
            restored=restored,
        )
        return Entry(phase=self.phase, model=model, rows=[row])


class Origins:
    """Stateful, one for each recorder."""

    def __init__(self) -> None:
        self._waiting: OrderedDict[int, Origin] = OrderedDict()

    def remember(self, uids: Iterable[int], origin: Origin) -> None:
        """Of each cache by itself: with a draft model the list holds the caches of two."""
        for uid in uids:
            self._waiting[uid] = origin
        while len(self._waiting) > BOUND:
            self._waiting.popitem(last=False)

    def take(self, uids: Iterable[int]) -> Origin | None:
        """The origin of these caches, if nobody has taken it yet."""
        found = None
        for uid in uids if self._waiting else ():
            found = self._waiting.pop(uid, found)
        return found

    def arriving(self, event: StepEvent) -> Entry | None:
        """The entry that comes before this forward, where it is the first over such caches."""
        origin = self.take(event.uids) if self._waiting else None
        if origin is None:
            return None
        offsets = (call.offset for call in event.attention)
        restored = next((offset for offset in offsets if isinstance(offset, int)), None)
        return origin.told(restored, event.model)
