"""What an attention call costs beyond its shapes: the intervention, and the reading of keys and masks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mlx.core as mx

from mlxdiag.models.mlx.attend import Attend, as_mask
from mlxdiag.models.mlx.identity import Identity
from mlxdiag.models.mlx.probe_events import AttentionEvent, Feeding
from mlxdiag.models.mlx.probe_frame import Frame


class AttendWatcher:
    """Applies `attend` first, so that what is read afterwards is what the call really uses."""

    def __init__(
        self, identity: Identity | None, attend: Attend | None, feeding: Callable[[], Feeding | None]
    ) -> None:
        self._identity = identity
        self._attend = attend
        self._feeding = feeding

    def inserting(self, frame: Frame, event: AttentionEvent, cache: Any, keys: Any) -> None:
        if self._identity is not None:
            self._read_position(frame, event)
            self._identity.insert(event, cache, keys, self._feeding())

    def attending(
        self, frame: Frame, event: AttentionEvent, queries: Any, keys: Any, values: Any, mask: Any
    ) -> tuple[Any, Any, Any]:
        if self._attend is not None:
            keys, values, mask, event.fate, event.fallback = self._attend(event, queries, keys, values, mask)
            mask = as_mask(mask, queries.dtype)
        if self._identity is not None:
            self._read_position(frame, event)
            event.seen = self._identity.observe(event, keys, frame.keys_of(event), mask, self._feeding())
        return keys, values, mask

    def left(self, frame: Frame) -> None:
        if self._identity is None or frame.attended:
            return
        for event in frame.pending:
            keys = frame.keys_of(event)
            event.seen = self._identity.observe(event, keys, keys, frame.given_mask(), self._feeding())

    def _read_position(self, frame: Frame, event: AttentionEvent) -> None:
        if event.rope is None and isinstance(frame.rope, mx.array):
            position: Any = frame.rope.tolist()
            event.rope = position
