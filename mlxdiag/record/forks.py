"""Copies of a prompt cache: another sequence goes on from the same tokens."""

from __future__ import annotations

import threading

from mlxdiag.models.events import CacheEvent
from mlxdiag.record.lineage import Lineage
from mlxdiag.traces.types import Entry, Row


class _Fork(threading.local):
    """The copy whose caches this thread is meeting one by one."""

    parents: list[str] | None = None
    names: list[str] = []
    seen: set[int | None] = set()


class Forks:
    """A copied cache is noticed when it is first used, each layer's by itself."""

    def __init__(self, lineage: Lineage) -> None:
        self._lineage = lineage
        self._fork = _Fork()

    def copied(self, event: CacheEvent) -> Entry | None:
        """Name the copy; for the first cache of a prompt cache, the entry that says where it came from."""
        parents = self._lineage.of(event.parents[0])
        if parents is None:
            return None
        fork = self._fork
        if parents is fork.parents and event.layer not in fork.seen:
            fork.seen.add(event.layer)
            self._lineage.bind([event.uid], fork.names)
            return None
        fork.parents, fork.seen = parents, {event.layer}
        fork.names = [self._lineage.new_name() for _ in parents]
        self._lineage.bind([event.uid], fork.names)
        held = event.before if isinstance(event.before, list) else [event.before] * len(parents)
        rows = [
            Row(seq=seq, entry=at, trimmed=0, restored=at)
            for seq, at in zip(fork.names, held, strict=False)
            if at is not None and at >= 0
        ]
        return Entry(phase="adopt", model=event.model, rows=rows) if rows else None
