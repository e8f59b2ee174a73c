"""Key identity read once a forward, when everything of it is evaluated together.

For small models an evaluation costs more than what it computes, and `Identity` makes several a layer. Here
contents are noted as lazy arrays and looked up in `settle`. Keys that are NaN cannot be numbered on the way
then, so behind a NaN the keys of later layers cannot be told apart; `seen` is there after `settle` only.
"""

from __future__ import annotations

from typing import Any

import mlx.core as mx
import msgspec
import numpy as np

from mlxdiag.models.events import AttentionEvent, Feeding
from mlxdiag.models.mlx.content import hashes_of, row_words
from mlxdiag.models.mlx.identity import Identity, as_held, visible_keys


class _Inserted(msgspec.Struct):
    model: str | None
    event: AttentionEvent
    words: list[mx.array]
    offset: Any
    feeding: Feeding | None


class _Attended(msgspec.Struct):
    model: str | None
    event: AttentionEvent
    words: list[mx.array]
    returned: list[mx.array] | None
    """None where the call was handed what the cache returned."""
    mask: Any
    feeding: Feeding | None


class DeferredIdentity(Identity):
    """Stateful as `Identity`; `settle` after each forward, whether it failed or not."""

    def __init__(self) -> None:
        super().__init__()
        self._noted: list[_Inserted | _Attended] = []

    def insert(
        self, model: str | None, event: AttentionEvent, cache: Any, keys: Any, feeding: Feeding | None
    ) -> Any:
        offset = getattr(cache, "offset", None) if event.offset is None else None
        words = row_words(as_held(event, cache, keys))
        self._noted.append(_Inserted(model, event, words, offset, feeding))
        return keys

    def observe(
        self,
        model: str | None,
        event: AttentionEvent,
        keys: Any,
        returned: Any,
        mask: Any,
        feeding: Feeding | None,
    ) -> None:
        """Noted; `event.seen` is set by `settle`."""
        others = None if returned is keys or returned is None else row_words(returned)
        self._noted.append(_Attended(model, event, row_words(keys), others, mask, feeding))

    def arrays(self) -> list[mx.array]:
        """What has to be evaluated before `settle` can read it."""
        found: list[mx.array] = []
        for noted in self._noted:
            found += noted.words
            if isinstance(noted, _Attended):
                found += noted.returned or []
                found += [noted.mask] if isinstance(noted.mask, mx.array) else []
        return found

    def settle(self) -> None:
        """Look everything up that was noted, in order."""
        noted, self._noted = self._noted, []
        for one in noted:
            if isinstance(one, _Inserted):
                if isinstance(one.offset, mx.array):
                    one.event.offset = np.array(one.offset).tolist()
                hashes = hashes_of(one.words)[0]
                if _describes(one.feeding, *hashes.shape):
                    self.remember(one.model, one.event, hashes, one.feeding)
            elif _describes(one.feeding, one.words[0].shape[0], one.event.q):
                own = hashes_of(one.words)
                others = own if one.returned is None else hashes_of(one.returned)
                visible = visible_keys(one.mask, own[0].shape[0], one.event.q, own[0].shape[1])
                one.event.seen = self.recognise(one.model, one.event, own, others, visible, one.feeding)


def _describes(feeding: Feeding | None, batch: int, length: int) -> bool:
    """Whether a call has the rows and tokens that were fed: some models fold one into the other, and then
    nobody can say which key is whose.
    """
    return feeding is None or feeding.positions.shape == (batch, length)
