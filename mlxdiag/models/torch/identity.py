"""Which token a key of torch belongs to: what `models.identity` needs of keys and masks, read at once."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from mlxdiag.models import identity
from mlxdiag.models.content import Ints
from mlxdiag.models.events import AttentionEvent, Feeding, Seen
from mlxdiag.models.identity import Memories, Memory
from mlxdiag.models.torch.content import as_numpy, number_nans, row_hashes
from mlxdiag.models.torch.packing import Packing
from mlxdiag.models.torch.probe_effect import CAUSAL, OLDEST, OPAQUE, Effect


class Identity(Memories):
    """The memory of one run. Runs that feed the same sequences again need a fresh one, or `clear`.

    Keys that a cache changes (a quantised one dequantises all of them for each call) cannot be told.
    """

    def __init__(self) -> None:
        super().__init__()
        self._nans = 0

    def insert(
        self, model: str | None, event: AttentionEvent, keys: torch.Tensor, feeding: Feeding | None
    ) -> torch.Tensor:
        """Remember new keys [B, H, L, D] of a layer; returns the keys that the cache must be given instead.

        They are the same numbers: only NaN may be another NaN.
        """
        keys, self._nans = number_nans(keys, self._nans)
        self.remember(model, event, row_hashes(keys)[0], feeding)
        return keys

    def observe(
        self,
        model: str | None,
        event: AttentionEvent,
        keys: torch.Tensor,
        returned: torch.Tensor | None,
        effect: Effect,
        feeding: Feeding | None,
    ) -> Seen | None:
        """What the call attends: `keys` as applied, `returned` as the cache gave them, and what the
        implementation makes of its mask.

        None when the mask does not fit the keys, so that the call cannot run, or cannot be read.
        """
        own = row_hashes(keys)
        others = own if returned is keys or returned is None else row_hashes(returned)
        visible = visible_keys(effect, keys.shape[0], event.q, keys.shape[2])
        return self.recognise(model, event, own, others, visible, feeding)

    def insert_packed(
        self, model: str | None, event: AttentionEvent, keys: torch.Tensor, packing: Packing
    ) -> torch.Tensor:
        """As `insert`, of keys [1, H, L, D] of several requests behind one another."""
        keys, self._nans = number_nans(keys, self._nans)
        hashes = row_hashes(keys)[0]
        self._memory(model, event).insert(hashes, *packing.flat(hashes.shape[1]))
        return keys

    def observe_packed(
        self,
        model: str | None,
        event: AttentionEvent,
        keys: torch.Tensor,
        effect: Effect,
        packing: Packing,
    ) -> Seen | None:
        """As `observe`, with a row for each request and all keys of the call in every row."""
        visible = visible_keys(effect, 1, event.q, keys.shape[2])
        if visible is None:
            return None
        fed = packing.feeding
        seqs = np.array(fed.seq)
        hashes, zero = (np.repeat(part, len(seqs), axis=0) for part in row_hashes(keys))
        key_seq, key_pos, ambiguous = self._memory(model, event).look_up(hashes, zero, seqs)
        rows = packing.by_request(visible)
        return Seen(rows, key_seq, key_pos, seqs, fed.positions, fed.real, ambiguous)

    def _memory(self, model: str | None, event: AttentionEvent) -> Memory:
        """By the cache's own layer where there is one: looped layers have several."""
        if event.index is None:
            return super()._memory(model, event)
        return self._layers.setdefault((model, None, event.index, 0), Memory())

    def arrays(self) -> list[Any]:
        """Nothing waits to be evaluated: torch computes at once."""
        return []

    def settle(self) -> None:
        """Nothing waits to be looked up."""


def visible_keys(effect: Effect, batch: int, q: int, length: int) -> Ints | None:
    """What a call lets its queries see, boolean [B or 1, q, K]; None where the mask does not fit, or is none
    of this module's business.
    """
    mask = effect.mask
    if effect.rule == OPAQUE:
        return None
    if mask is None and effect.rule == OLDEST:
        return (np.arange(length)[None] <= np.arange(q)[:, None])[None]
    if mask is None:
        if effect.rule not in (None, CAUSAL):
            return None
        return identity.visible_keys("causal" if effect.rule == CAUSAL else None, batch, q, length)
    if not isinstance(mask, torch.Tensor) or mask.ndim != 4:
        return None
    return identity.visible_keys(as_numpy(mask), batch, q, length)
