"""One forward while it is being built: the layer that runs, and cache updates that wait for their attention
call.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from itertools import chain
from typing import Any

import msgspec
from msgspec import UNSET

from mlxdiag.models.mlx.probe_events import AttentionEvent, Offset, StepEvent
from mlxdiag.models.mlx.probe_tags import Tag


class Frame:
    """State of one forward in one thread. Holds the returned keys so that their ids stay unique until it
    ends.
    """

    __slots__ = (
        "args",
        "attended",
        "busy",
        "caches",
        "failed",
        "held",
        "kwargs",
        "layer",
        "owners",
        "pending",
        "rope",
        "step",
        "updated",
    )

    def __init__(self, step: StepEvent, caches: Any) -> None:
        self.step = step
        self.caches = caches
        self.layer: int | None = None
        self.args: tuple[Any, ...] = ()
        self.kwargs: dict[str, Any] = {}
        self.rope: Any = None
        """Position given to the last RoPE call of this layer: an int, or an array that nobody reads here."""
        self.pending: list[AttentionEvent] = []
        self.attended = False
        self.busy = False
        self.owners: dict[int, AttentionEvent] = {}
        """By id of the returned keys."""
        self.updated: dict[int, AttentionEvent] = {}
        """By id of the cache."""
        self.held: dict[int, Any] = {}
        """Returned keys by id of their event."""
        self.failed: int | None = None

    def enter(self, layer: int, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.layer, self.args, self.kwargs = layer, args, kwargs
        self.rope = None
        self.attended = False

    def leave(self) -> None:
        """Deliver updates that no attention call took: a softmax by hand, or a cache that holds something
        else.
        """
        for event in self.pending:
            if not self.attended and event.k is not None:
                event.manual = True
                event.mask = mask_shape(self.given_mask())
                event.k_seen = event.k
            self.step.attention.append(event)
        self.pending = []
        self.layer = None

    def given_mask(self) -> Any:
        """The mask argument of the running layer: by name, or second as in `layer(x, mask, cache)`."""
        if "mask" in self.kwargs:
            return self.kwargs["mask"]
        return self.args[1] if len(self.args) > 1 else None

    def returned(self, event: AttentionEvent, keys: Any) -> None:
        self.pending.append(event)
        self.owners[id(keys)] = event
        self.held[id(event)] = keys

    def take(self, keys: Any, q: int) -> AttentionEvent:
        """The event of an attention call over `keys`: the layer's own update, an earlier layer's, or none."""
        event = self.owners.get(id(keys))
        if event is None:
            if self.pending:
                return self.pending.pop()
            event = next(self._given_caches(), None)
            if event is None:
                return self._without_cache(keys, q)
        elif event in self.pending:
            self.pending.remove(event)
            return event
        return self._borrow(event)

    def _given_caches(self) -> Iterator[AttentionEvent]:
        for value in chain(self.args, self.kwargs.values()):
            if id(value) in self.updated:
                yield self.updated[id(value)]

    def _borrow(self, event: AttentionEvent) -> AttentionEvent:
        owner = event.layer if event.layer != self.layer else event.owner
        borrowed = msgspec.structs.replace(
            event, layer=self.layer, owner=owner, mask=UNSET, seen=None, rope=self.position(None)
        )
        if id(event) in self.held:
            self.held[id(borrowed)] = self.held[id(event)]
        return borrowed

    def _without_cache(self, keys: Any, q: int) -> AttentionEvent:
        event = AttentionEvent(
            self.layer, None, None, None, None, None, None, None, 0, 0, 0, 0, 0, q, rope=self.position(None)
        )
        event.k = key_length(keys)
        self.owners[id(keys)] = event
        self.held[id(event)] = keys
        return event

    def position(self, cache: Any, tag: Tag | None = None) -> Offset:
        """The RoPE position without reading an array: an int, or the rows' offsets where it is the cache's
        own.
        """
        rope = self.rope
        if rope is None or isinstance(rope, int):
            return rope
        return tag.offsets if tag is not None and rope is cache.offset else None

    def index_of(self, cache: Any) -> int:
        """Place of a cache, or of the compound cache that holds it, in the list given to the model; -1 if
        absent.
        """
        for index, entry in enumerate(self.caches or ()):
            if entry is cache or any(member is cache for member in getattr(entry, "caches", ())):
                return index
        return -1


class Local(threading.local):
    """The running forward of this thread, if any."""

    frame: Frame | None = None


def key_length(keys: Any) -> int:
    """Keys in a [B, H, K, D] array, or in the first array of a quantised triple."""
    return int((keys[0] if isinstance(keys, tuple | list) else keys).shape[2])


def mask_shape(mask: Any) -> tuple[int, ...] | str | None:
    if mask is None or isinstance(mask, str):
        return mask
    return tuple(mask.shape)
