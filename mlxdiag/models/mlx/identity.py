"""Which token a key of MLX belongs to: what `models.identity` needs of keys and masks, read at once.

Keys of a quantised cache are told by their quantised triple. Reading evaluates what is read.
"""

from __future__ import annotations

from typing import Any

import mlx.core as mx
import numpy as np

from mlxdiag.models import identity
from mlxdiag.models.content import Ints
from mlxdiag.models.events import AttentionEvent, Feeding, Seen
from mlxdiag.models.identity import Memories
from mlxdiag.models.mlx.content import number_nans, row_hashes
from mlxdiag.models.mlx.probe_tags import Tag


class Identity(Memories):
    """The memory of one run. Runs that feed the same sequences again need a fresh one, or `clear`."""

    def __init__(self) -> None:
        super().__init__()
        self._nans = 0

    def insert(
        self, model: str | None, event: AttentionEvent, cache: Any, keys: Any, feeding: Feeding | None
    ) -> Any:
        """Remember new keys [B, H, L, D] of a layer; returns the keys that the cache must be given instead.

        They are the same numbers: only NaN may be another NaN.
        """
        keys, self._nans = number_nans(keys, self._nans)
        hashes, _ = row_hashes(as_held(event, cache, keys))
        if event.offset is None and isinstance(getattr(cache, "offset", None), mx.array):
            event.offset = cache.offset.tolist()
        self.remember(model, event, hashes, feeding)
        return keys

    def quantized(self, tag: Tag, cache: Any, quantized: Any) -> None:
        """The keys of a cache are held as quantised triples from now on: those are the same tokens."""
        if cache.keys is None:
            return
        held = cache.keys[..., : cache.offset, :]
        triple = [a[..., : cache.offset, :] for a in quantized.keys]
        where = (tag.model, tag.layer, tag.index, tag.part)
        self.rename(where, row_hashes(held)[0], row_hashes(triple)[0])

    def observe(
        self,
        model: str | None,
        event: AttentionEvent,
        keys: Any,
        returned: Any,
        mask: Any,
        feeding: Feeding | None,
    ) -> Seen | None:
        """What the call attends: `keys` and `mask` as applied, `returned` as the cache gave them.

        None when the mask does not fit the keys, so that the call cannot run.
        """
        own = row_hashes(keys)
        others = own if returned is keys or returned is None else row_hashes(returned)
        visible = visible_keys(mask, own[0].shape[0], event.q, own[0].shape[1])
        return self.recognise(model, event, own, others, visible, feeding)


def as_held(event: AttentionEvent, cache: Any, keys: Any) -> Any:
    """New keys as the cache will hold them: quantised where it quantises."""
    if event.kv_bits is None:
        return keys
    return mx.quantize(keys, group_size=cache.group_size, bits=cache.bits)


def visible_keys(mask: Any, batch: int, q: int, length: int) -> Ints | None:
    """A mask as boolean [B or 1, q, K], heads merged; None where it does not fit. "causal" is lower-right
    aligned.
    """
    if isinstance(mask, mx.array):
        mask = np.array(mask if mask.dtype == mx.bool_ else mask.astype(mx.float32))
    return identity.visible_keys(mask, batch, q, length)
