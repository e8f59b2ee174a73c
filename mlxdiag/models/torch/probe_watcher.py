"""What an attention call costs beyond its shapes: the intervention, and the reading of keys and masks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from mlxdiag.models.events import AttentionEvent, Feeding, Offset
from mlxdiag.models.torch.attend import Attend, as_mask
from mlxdiag.models.torch.identity import Identity
from mlxdiag.models.torch.probe_effect import effect_of, takes_boolean
from mlxdiag.models.torch.probe_frame import Frame


class Watcher:
    """Applies `attend` first, so that what is read afterwards is what the call really uses."""

    def __init__(
        self, identity: Identity | None, attend: Attend | None, feeding: Callable[[], Feeding | None]
    ) -> None:
        self._identity = identity
        self._attend = attend
        self.feeding = feeding
        self._positions: tuple[Any, Any] = (None, None)
        """The last tensor of positions that was read, and what it held: one serves all layers."""

    def inserting(self, frame: Frame, event: AttentionEvent, keys: Any) -> Any:
        """New keys [B, H, L, D] are about to be appended; returns those to append."""
        if self._identity is None:
            return keys
        if frame.packing is not None:
            return self._identity.insert_packed(frame.step.model, event, keys, frame.packing)
        return self._identity.insert(frame.step.model, event, keys, self.feeding())

    def attending(
        self,
        frame: Frame,
        event: AttentionEvent,
        kind: str,
        module: Any,
        queries: Any,
        keys: Any,
        values: Any,
        mask: Any,
        kwargs: Mapping[str, Any],
    ) -> tuple[Any, Any, Any]:
        """A function of this `kind` is about to be called; returns keys, values and mask to call it with."""
        q = queries.shape[2]
        if event.kind is None and event.offset == 0:
            event.offset = _behind_padding(self.feeding())
        if self._attend is not None:
            keys, values, mask, event.fate, fallback = self._attend(event, queries, keys, values, mask)
            mask = as_mask(mask, queries, takes_boolean(kind))
            event.fallback = fallback or event.fallback
        effect = effect_of(kind, module, q, keys.shape[2], mask, kwargs)
        if event.fate == "discarded" and mask is None:
            # What the library then does is the fallback, whatever the intervention meant.
            event.fallback = effect.rule or "none"
        if self._identity is not None and frame.packing is not None:
            event.seen = self._identity.observe_packed(frame.step.model, event, keys, effect, frame.packing)
        elif self._identity is not None:
            if not _may_be_padded(frame, event, self.feeding()):
                self._read_positions(event, kwargs.get("position_ids"))
            event.seen = self._identity.observe(
                frame.step.model, event, keys, frame.keys_of(event), effect, self.feeding()
            )
        return keys, values, mask

    def _read_positions(self, event: AttentionEvent, positions: Any) -> None:
        """Positions given to RoPE, as that of the first column: counted back from a row's first real token,
        since padding is given any position.
        """
        if positions is None or positions.ndim != 2:
            return
        held, read = self._positions
        if held is not positions:
            read = positions.cpu().numpy()
            self._positions = (positions, read)
        event.rope = _first_column(read, self.feeding(), event.offset)


def _behind_padding(feeding: Feeding | None) -> Offset:
    """Offsets of rows of which nothing is held, each counted from its first real token."""
    real = feeding.real if feeding is not None else None
    if real is None or not real.size or real[:, 0].all():
        return 0
    return [-int(np.argmax(row)) if row.any() else -len(row) for row in real]


def _may_be_padded(frame: Frame, event: AttentionEvent, feeding: Feeding | None) -> bool:
    """Whether the rows of a call without a cache may hold padding that nobody tells of: the positions that
    it is given say nothing.
    """
    untold = feeding is None or not feeding.padding_known
    return event.kind is None and untold and frame.step.batch > 1 and frame.given is not None


def _first_column(positions: Any, feeding: Feeding | None, offset: Offset | None) -> Offset:
    """`offset`: where the rows stand, left padding counted down from zero."""
    rows = len(feeding.real) if feeding is not None else positions.shape[0]
    positions = np.broadcast_to(positions, (rows, positions.shape[1]))
    columns = np.zeros(rows, np.int64)
    if feeding is not None and feeding.padding_known and feeding.real.shape == positions.shape:
        columns = np.argmax(feeding.real, axis=1)
    elif isinstance(offset, list) and len(offset) == rows:
        columns = np.clip(-np.array(offset), 0, positions.shape[1] - 1)
    first: list[int] = (positions[np.arange(rows), columns] - columns).tolist()
    return first[0] if len(set(first)) == 1 else first
