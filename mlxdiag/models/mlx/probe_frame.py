"""One forward while it is being built: the layer that runs, and cache updates that wait for their attention
call.
"""

from __future__ import annotations

from itertools import chain
from typing import Any

import msgspec
from msgspec import UNSET

from mlxdiag.models.events import AttentionEvent, Offset, StepEvent, Update, in_full
from mlxdiag.models.mlx.probe_tags import Tag
from mlxdiag.models.shield import Faults

SEQUENCES = (tuple, list)
"""Types of a quantised triple; compared by type, since isinstance costs more than a whole wrapper may."""


class Frame:
    """State of one forward in one thread. Holds the returned keys, so that they can be told by identity."""

    __slots__ = (
        "applied",
        "args",
        "attended",
        "busy",
        "caches",
        "failed",
        "known",
        "kwargs",
        "layer",
        "manual",
        "module",
        "pending",
        "returns",
        "rope",
        "step",
    )

    def __init__(self, step: StepEvent, caches: Any) -> None:
        self.step = step
        self.caches = caches
        self.layer: int | None = None
        self.module: Any = None
        """The running layer itself."""
        self.manual = False
        """Whether it is known to compute its softmax by hand."""
        self.args: tuple[Any, ...] = ()
        self.kwargs: dict[str, Any] = {}
        self.rope: Any = None
        """Position given to the last RoPE call of this layer: an int, or an array that nobody reads here."""
        self.known: tuple[Any, Offset] = (None, None)
        """The last position array that was recognised as a cache's own, and its value."""
        self.pending: list[Any] = []
        """Updates that wait for their attention call: events, or `Update` where nobody watches."""
        self.attended = False
        self.busy = False
        self.returns: list[tuple[Any, Any, Any]] = []
        """Cache, returned keys and event of each update so far; a borrowing layer searches it."""
        self.failed: int | None = None
        self.applied: tuple[Any, int, AttentionEvent] | None = None
        """For a softmax by hand: the mask and key count that an intervention chose, and the event it was
        shown.
        """

    def enter(self, layer: int, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.layer, self.module, self.args, self.kwargs = layer, module, args, kwargs
        self.rope = None
        self.applied = None
        self.attended = False

    def leave(self) -> None:
        """Deliver updates that no attention call took: a softmax by hand, or a cache of something else."""
        self.layer = None
        if not self.pending:
            return
        for event in map(in_full, self.pending):
            if not self.attended and event.k is not None:
                event.manual = True
                event.mask = mask_shape(self.given_mask())
                event.k_seen = event.k
            self.step.calls.append(event)
        self.pending = []

    def given_mask(self) -> Any:
        """The mask argument of the running layer: by name, or second as in `layer(x, mask, cache)`."""
        if "mask" in self.kwargs:
            return self.kwargs["mask"]
        return self.args[1] if len(self.args) > 1 else None

    def take(self, keys: Any, q: int) -> AttentionEvent:
        """The event of an attention call over `keys`: the layer's own update, an earlier layer's, or none."""
        found = self._returned(keys)
        if found is None:
            if self.pending:
                return in_full(self.pending.pop())
            found = self._of_given_cache()
        if found is None:
            return self._without_cache(keys, q)
        for index, waiting in enumerate(self.pending):
            if waiting is found:
                del self.pending[index]
                return in_full(found)
        return self._borrow(in_full(found), keys)

    def place(self, tag: Tag, cache: Any) -> None:
        """Note where in the model a cache is used, at its first update."""
        tag.placed = True
        tag.index, tag.part = self.place_of(cache)
        tag.layer, tag.model = self.layer, self.step.model

    def attend(self, keys: Any, q: int, mask: Any, sinks: bool) -> AttentionEvent:
        """An attention call with a mask of this shape, over keys that may be those of any update."""
        event = self.take(keys, q)
        event.k_seen, event.mask, event.sinks = key_length(keys), mask, sinks
        self.attended = True
        self.step.calls.append(event)
        return event

    def keys_of(self, event: AttentionEvent) -> Any:
        """What the cache returned for this event."""
        return next((keys for _, keys, owner in reversed(self.returns) if owner is event), None)

    def _returned(self, keys: Any) -> AttentionEvent | Update | None:
        return next((event for _, held, event in reversed(self.returns) if held is keys), None)

    def _of_given_cache(self) -> AttentionEvent | Update | None:
        """The update of the cache that the running layer was given: it reads the keys of an earlier one."""
        given = {id(value) for value in chain(self.args, self.kwargs.values()) if value is not None}
        return next((event for cache, _, event in reversed(self.returns) if id(cache) in given), None)

    def _borrow(self, event: AttentionEvent, keys: Any) -> AttentionEvent:
        owner = event.owner
        if owner is None and event.layer != self.layer:
            owner = event.layer
        borrowed = msgspec.structs.replace(
            event,
            layer=self.layer,
            owner=owner,
            mask=UNSET,
            seen=None,
            fate=None,
            fallback=None,
            rope=self.position(None),
        )
        self.returns.append((None, keys, borrowed))
        return borrowed

    def _without_cache(self, keys: Any, q: int) -> AttentionEvent:
        # Nothing is held before the call: the offset and every count of held keys are 0. With more keys than
        # queries it reads some layer's cache past `update_and_fetch`, and how much that held is not known.
        length = key_length(keys)
        none = 0 if length == q else None
        event = AttentionEvent(
            self.layer, None, None, None, None, None, None, None, none, none, none, none, none, q
        )
        event.rope = self.position(None)
        event.k = length
        self.returns.append((None, keys, event))
        return event

    def position(self, cache: Any, tag: Tag | None = None) -> Offset:
        """The RoPE position, no array read: an int, or the rows' offsets where it is the cache's own."""
        rope = self.rope
        if rope is None or isinstance(rope, int):
            return rope
        if tag is not None and rope is cache.offset:
            self.known = (rope, tag.offsets)
        # Some models take the position once, from their first cache, for all layers.
        return self.known[1] if rope is self.known[0] else None

    def place_of(self, cache: Any) -> tuple[int | None, int]:
        """Place of a cache, or of the compound that holds it, in the list given to the model; and its place
        in the compound.
        """
        for index, entry in enumerate(self.caches or ()):
            if entry is cache:
                return index, 0
            for part, member in enumerate(getattr(entry, "caches", ())):
                if member is cache:
                    return index, part
        return None, 0


class Local(Faults):
    """The running forward of this thread, if any."""

    frame: Frame | None = None


def key_length(keys: Any) -> int:
    """Keys in a [B, H, K, D] array, or in the first array of a quantised triple."""
    length: int = keys[0].shape[2] if type(keys) in SEQUENCES else keys.shape[2]
    return length


def mask_shape(mask: Any) -> tuple[int, ...] | str | None:
    if mask is None or isinstance(mask, str):
        return mask
    return tuple(mask.shape)
