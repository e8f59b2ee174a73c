"""What is known of a cache layer of transformers without reading a tensor: its kind and its counters.

Checked against transformers 5.24, `cache_utils.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mlxdiag.models.events import UIDS, Offset

KINDS = {
    "BufferedSlidingLayer": "buffered",
    "DynamicSlidingWindowLayer": "rotating",
    "DynamicLayer": "dense",
    "StaticSlidingWindowLayer": "static_sliding",
    "StaticLayer": "static",
    "BaseQuantizedLayer": "quantized",
    "LinearAttentionCacheLayerMixin": "recurrent",
}
"""By class or nearest known ancestor. A dynamic sliding layer returns what a rotating cache does:
`min(c, W - 1) + q` keys; its order is chronological for a single token too."""
ATTRIBUTE = "_mlxdiag"

Counters = tuple[Offset, int | None, int | None, int | None, int | None]
"""offset, cursor, live_start, live, buffer"""
Alike = tuple[str, int | None, int | None, int | None, int | None]
"""kind, window, keep, slack, kv_bits: what a trace tells of the cache itself."""

FRESH: Counters = (0, 0, 0, 0, None)


class Tag:
    """Kept in the layer's `__dict__`, so that it costs one look-up and goes with the layer into a deep
    copy. A pickle holds None in its place: nobody needs this package to read it.
    """

    __slots__ = ("alike", "home", "index", "kind", "layer", "model", "name", "part", "ragged", "read", "uid")

    def __init__(self, layer: Any, index: int) -> None:
        self.home = id(layer)
        self.uid = next(UIDS)
        self.name = type(layer).__name__
        self.kind = kind_of(type(layer))
        self.index: int | None = index
        self.layer: int | None = index
        """The layer of the model; the place in the cache's list is the same number."""
        self.part = 0
        self.model: str | None = None
        self.read = _READERS.get(self.kind, _nothing)
        slack = getattr(layer, "slack", None)
        self.alike: Alike = (self.kind, _window(layer, self.kind), None, slack, _bits(layer, self.kind))
        batched = {"dense": "batch", "rotating": "batch_rotating"}.get(self.kind, self.kind)
        self.ragged: Alike = (batched, *self.alike[1:])
        """The same for rows that are not at one offset: one counter for all of them, as a batch cache has."""

    def __deepcopy__(self, _memo: Any) -> Tag:
        twin: Tag = Tag.__new__(Tag)
        for name in Tag.__slots__:
            setattr(twin, name, getattr(self, name))
        return twin

    def __reduce__(self) -> Any:
        return type(None), ()

    def offset_of(self, layer: Any) -> Offset:
        """The layer's offset now; None where it cannot be told without reading a tensor."""
        return self.read(layer)[0]


OnCopy = Callable[[Any, Tag, int], None]
"""Told of a copied layer, its tag, and the uid of the original."""


def kind_of(cls: type) -> str:
    """The cache kind of a class or of its nearest known ancestor; "unknown" for a foreign one."""
    names = [c.__name__ for c in cls.__mro__]
    if "LinearAttentionLayer" in names and cls.__name__.startswith("LinearAttentionAnd"):
        # A layer that keeps both: its keys are what attention is about.
        names.remove("LinearAttentionCacheLayerMixin")
    if "BaseQuantizedLayer" in names:
        return "quantized"
    return next((KINDS[name] for name in names if name in KINDS), "unknown")


def tag_of(layer: Any, index: int, on_copy: OnCopy | None = None) -> Tag:
    """The layer's tag, made on first sight. A deep copy gets one of its own, announced with its parent's
    uid.
    """
    tag: Tag | None = layer.__dict__.get(ATTRIBUTE)
    if tag is not None and tag.home == id(layer):
        return tag
    fresh = Tag(layer, index)
    if tag is not None:
        fresh.model = tag.model
        if on_copy is not None:
            on_copy(layer, fresh, tag.uid)
    layer.__dict__[ATTRIBUTE] = fresh
    return fresh


def uids_of(cache: Any, on_copy: OnCopy | None = None) -> list[int]:
    """Uids of the layers of a cache, tagging what has none yet; layers that hold nothing are left out."""
    layers = getattr(cache, "layers", None)
    if not isinstance(layers, list):
        return []
    found = []
    for index, layer in enumerate(layers):
        tag = layer.__dict__.get(ATTRIBUTE)
        if tag is not None and tag.home == id(layer):
            found.append(tag.uid)
        elif kind_of(type(layer)) != "unknown":
            found.append(tag_of(layer, index, on_copy).uid)
    return found


def _window(layer: Any, kind: str) -> int | None:
    """The cache's own bound. A static layer does not keep the window that it was made with: its buffer is the
    smaller one of window and room.
    """
    return int(layer.sliding_window) if kind in ("rotating", "buffered") else None


def _bits(layer: Any, kind: str) -> int | None:
    return int(getattr(layer, "nbits", 8)) if kind == "quantized" else None


def _stored(layer: Any) -> int:
    """Before the first call a dynamic layer has no keys, or an empty vector of them."""
    keys = layer.keys
    return 0 if keys is None or keys.ndim < 4 else int(keys.shape[-2])


def _dense(layer: Any) -> Counters:
    live = _stored(layer)
    dropped = getattr(layer, "dropped", 0)
    return live + dropped, live + dropped, dropped, live, None


def _quantized(layer: Any) -> Counters:
    seen = layer.cumulative_length
    return seen, seen, 0, seen, None


def _rotating(layer: Any) -> Counters:
    seen = layer.cumulative_length
    live = min(_stored(layer), seen)
    return seen, seen, seen - live, live, None


def _static(layer: Any) -> Counters:
    """The only counter is a tensor. On a CPU it may be read; elsewhere that would wait for the device."""
    length, width = layer.cumulative_length, layer.max_cache_len
    if not layer.is_initialized:
        return 0, 0, 0, 0, width
    seen = int(length) if length.device.type == "cpu" else None
    return seen, seen, 0, seen, width


def _static_sliding(layer: Any) -> Counters:
    seen, width = layer.cumulative_length_int, layer.max_cache_len
    live = min(seen, width)
    return seen, seen, seen - live, live, width


def _nothing(_layer: Any) -> Counters:
    return None, None, None, None, None


_READERS: dict[str, Callable[[Any], Counters]] = {
    "dense": _dense,
    "quantized": _quantized,
    "rotating": _rotating,
    "buffered": _rotating,
    "static": _static,
    "static_sliding": _static_sliding,
}
