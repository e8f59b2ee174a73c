"""What an attention call costs beyond its shapes: the intervention, and the reading of keys and masks."""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain
from typing import Any

import mlx.core as mx
import numpy as np

from mlxdiag.models.events import AttentionEvent, Feeding, Seen
from mlxdiag.models.identity import PADDING, fed_by
from mlxdiag.models.mlx.attend import Attend, as_mask, newest
from mlxdiag.models.mlx.identity import Identity, visible_keys
from mlxdiag.models.mlx.probe_calls import event_before
from mlxdiag.models.mlx.probe_frame import Frame, mask_shape
from mlxdiag.models.mlx.probe_tags import tag_of


class AttendWatcher:
    """Applies `attend` first, so that what is read afterwards is what the call really uses."""

    def __init__(
        self, identity: Identity | None, attend: Attend | None, feeding: Callable[[], Feeding | None]
    ) -> None:
        self._identity = identity
        self._attend = attend
        self._feeding = feeding

    def inserting(self, frame: Frame, event: AttentionEvent, cache: Any, keys: Any) -> Any:
        if self._identity is None:
            return keys
        self._read_position(frame, event)
        return self._identity.insert(frame.step.model, event, cache, keys, self._feeding())

    def attending(
        self, frame: Frame, event: AttentionEvent, queries: Any, keys: Any, values: Any, mask: Any
    ) -> tuple[Any, Any, Any]:
        if self._attend is not None:
            keys, values, mask, event.fate, event.fallback = self._attend(event, queries, keys, values, mask)
            mask = as_mask(mask, queries.dtype)
        if self._identity is not None:
            self._read_position(frame, event)
            returned = frame.keys_of(event)
            event.seen = self._identity.observe(
                frame.step.model, event, keys, returned, mask, self._feeding()
            )
        return keys, values, mask

    def entering(self, frame: Frame) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """A softmax by hand uses its mask where no probe can reach, so it is replaced on the way in.

        Keys are not there yet: `attend` is shown placeholders of the length that a dense cache will return,
        and keys that it cuts to their newest are cut when the cache returns them. Other caches are left
        alone.
        """
        hidden, cache = frame.args[0], self._cache(frame)
        if self._attend is None or cache is None:
            return frame.args, frame.kwargs
        batch, q = hidden.shape[:2]
        tag = tag_of(cache)
        event = event_before(frame, tag, cache, mx.zeros((batch, 1, q, 1)))
        if tag.kind not in ("dense", "batch") or event.live is None:
            return frame.args, frame.kwargs
        event.k = event.k_seen = event.live + q
        event.manual = True
        mask = frame.given_mask()
        event.mask = mask_shape(mask)
        blank = mx.zeros((batch, 1, event.k, 1), hidden.dtype)
        queries = mx.zeros((batch, 1, q, 1), hidden.dtype)
        keys, _, mask, event.fate, event.fallback = self._attend(event, queries, blank, blank, mask)
        length = keys.shape[2]
        if isinstance(mask, str):
            mask = visible_keys(mask, batch, q, length)
        if isinstance(mask, np.ndarray) and mask.ndim == 4 and _grouped(frame.module):
            mask = mask[:, None]
        mask = as_mask(mask, hidden.dtype)
        frame.applied = (mask, length, event)
        if "mask" in frame.kwargs:
            return frame.args, {**frame.kwargs, "mask": mask}
        return (hidden, mask, *frame.args[2:]), frame.kwargs

    def returned(self, frame: Frame, keys_and_values: Any) -> Any:
        if frame.applied is None:
            return keys_and_values
        length = frame.applied[1]
        return tuple(newest(array, length) for array in keys_and_values)

    def left(self, frame: Frame) -> None:
        """The layer has ended. What its pending updates attended, where the softmax was computed by hand."""
        if frame.attended or frame.failed is not None:
            return
        if frame.manual and not frame.pending and self._identity is not None:
            self._without_cache(frame)
        for event in frame.pending:
            mask, keys = frame.given_mask(), frame.keys_of(event)
            if frame.applied is not None:
                mask, length, shown = frame.applied
                event.fate, event.fallback = shown.fate, shown.fallback
                keys = newest(keys, length)
            if self._identity is not None:
                if _grouped(frame.module):
                    mask = _over_key_heads(mask, keys.shape[1])
                event.seen = self._identity.observe(
                    frame.step.model, event, keys, keys, mask, self._feeding()
                )

    def _without_cache(self, frame: Frame) -> None:
        """A softmax by hand over the keys of this very call, which lie as they were fed."""
        batch, q = frame.args[0].shape[:2]
        event = AttentionEvent(frame.layer, None, None, None, None, None, None, None, 0, 0, 0, 0, 0, q)
        mask = frame.given_mask()
        event.mask, event.manual = mask_shape(mask), True
        event.k = event.k_seen = q
        if _grouped(frame.module):
            mask = _over_key_heads(mask, frame.module.self_attn.n_kv_heads)
        visible = visible_keys(mask, batch, q, q)
        if visible is not None:
            fed = fed_by(event, self._feeding(), batch, q)
            seqs = np.where(fed.real, np.array(fed.seq)[:, None], PADDING)
            event.seen = Seen(visible, seqs, fed.positions, np.array(fed.seq), fed.positions, fed.real)
        frame.step.attention.append(event)

    def _cache(self, frame: Frame) -> Any:
        given = chain(frame.args, frame.kwargs.values())
        return next((value for value in given if hasattr(value, "update_and_fetch")), None)

    def _read_position(self, frame: Frame, event: AttentionEvent) -> None:
        if event.rope is None and isinstance(frame.rope, mx.array):
            position: Any = frame.rope.tolist()
            event.rope = position


def _grouped(layer: Any) -> bool:
    """Scores by hand are [B, H, repeats, q, K] where several query heads share a key head (gemma2)."""
    return getattr(getattr(layer, "self_attn", None), "repeats", 1) > 1


def _over_key_heads(mask: Any, heads: int) -> Any:
    """A [n, 1, q, K] mask added to such scores: its first axis falls on the key heads, not on the batch.

    Every row then sees what any of the n allows; where n is neither 1 nor the number of heads, nothing fits.
    """
    if mask is None or isinstance(mask, str) or mask.ndim != 4 or mask.shape[0] == 1:
        return mask
    if mask.shape[0] != heads:
        return mx.zeros((0, 1, *mask.shape[2:]), mx.bool_)
    return mask.any(axis=0, keepdims=True) if mask.dtype == mx.bool_ else mask.max(axis=0, keepdims=True)
