"""One forward while it runs, and the thread that it runs in."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import UNSET

from mlxdiag.models.events import AttentionEvent, StepEvent, Update, in_full
from mlxdiag.models.shield import Faults


class Frame:
    """State of one forward in one thread. Holds the returned keys, so that they can be told by identity."""

    __slots__ = ("busy", "caches", "given", "layer", "left", "packing", "pending", "returns", "step")

    def __init__(self, step: StepEvent, cache: Any, given: Any) -> None:
        self.step = step
        self.caches: list[Any] = [] if cache is None else [cache]
        """The cache that the forward was given, and those that it made or found."""
        self.given = given
        """The attention mask that the model was called with: 2-D, 4-D, a dict by kind, or None."""
        self.packing: Any = None
        """Who is in a packed forward; None in any other."""
        self.layer: int | None = None
        """The layer that was last seen: the running one, and after an error the one that failed."""
        self.pending: list[Any] = []
        """Updates that wait for their attention call: events, or `Update` where nobody watches."""
        self.returns: list[tuple[Any, Any]] = []
        """Returned keys and event of each update so far; a borrowing layer searches it."""
        self.busy = False
        """Whether a cache is being updated: a cache may call another one's method of that name."""
        self.left: dict[int, list[int] | None] = {}
        """Left padding of the rows of each cache by its id; None where it is not known."""

    def take(self, keys: Any, layer: int, q: int) -> AttentionEvent:
        """The event of an attention call over `keys`: the layer's own update, an earlier layer's, or none."""
        found = self._returned(keys)
        if found is None:
            found = next((one for one in reversed(self.pending) if layer_of(one) == layer), None)
        if found is None:
            return self._without_cache(keys, layer, q)
        for index, waiting in enumerate(self.pending):
            if waiting is found:
                del self.pending[index]
                return self._own(in_full(found), layer)
        return self._borrow(in_full(found), keys, layer)

    def knows(self, keys: Any, layer: int) -> bool:
        """Whether these are keys that a cache returned in this forward, or those of a layer with a cache."""
        return self._returned(keys) is not None or any(layer_of(one) == layer for one in self.pending)

    def keys_of(self, event: AttentionEvent) -> Any:
        """What the cache returned for this event."""
        return next((keys for keys, owner in reversed(self.returns) if owner is event), None)

    def leave(self) -> None:
        """Deliver updates that no attention call took: their softmax was computed by hand."""
        for event in map(in_full, self.pending):
            if event.k is not None:
                event.manual, event.k_seen = True, event.k
            self.step.calls.append(event)
        self.pending = []

    def _returned(self, keys: Any) -> Any:
        return next((event for held, event in reversed(self.returns) if held is keys), None)

    def _own(self, event: AttentionEvent, layer: int) -> AttentionEvent:
        """A looped layer keeps the keys of each further pass in a cache layer behind those of the model."""
        if event.layer != layer:
            event.layer = layer
            event.part = sum(call.layer == layer for call in self.step.attention)
        return event

    def _borrow(self, event: AttentionEvent, keys: Any, layer: int) -> AttentionEvent:
        owner = event.owner
        if owner is None and event.layer != layer:
            owner = event.layer
        borrowed = msgspec.structs.replace(
            event,
            layer=layer,
            owner=owner,
            mask=UNSET,
            seen=None,
            fate=None,
            fallback=None,
            rope=None,
            key_padding=None,
            builder=None,
            opaque=False,
        )
        self.returns.append((keys, borrowed))
        return borrowed

    def _without_cache(self, keys: Any, layer: int, q: int) -> AttentionEvent:
        # Nothing is held before the call: the offset and every count of held keys are 0. With more keys than
        # queries they came from somewhere past `Cache.update`, and how much that held is not known.
        k = int(keys.shape[2])
        none = 0 if k == q else None
        event = AttentionEvent(
            layer, None, None, None, None, None, None, None, none, none, none, none, none, q
        )
        event.k = k
        self.returns.append((keys, event))
        return event


class Local(Faults):
    """The running forward of this thread, if any."""

    frame: Frame | None = None
    packed: Any = None
    """Members of the next packed forward."""


def layer_of(event: AttentionEvent | Update) -> int | None:
    """The layer of an update, whichever way it is kept."""
    layer: int | None = event[0] if type(event) is tuple else event.layer  # type: ignore[union-attr]
    return layer
