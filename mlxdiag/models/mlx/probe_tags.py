"""What is known of a cache without reading an array: its kind, its counters, and the rows of a batch.

Batch caches keep offsets and paddings in arrays. Reading those would evaluate them, so their values are
followed here from the Python lists that the caches are given. Checked against mlx-lm 0.32.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mlxdiag.models.events import UIDS, Offset

KINDS = {
    "KVCache": "dense",
    "ConcatenateKVCache": "dense",
    "FrontTrimKVCache": "dense",
    "SlicedKVCache": "dense",
    "QuantizedKVCache": "quantized",
    "RotatingKVCache": "rotating",
    "ClampedRotatingKVCache": "rotating",
    "BufferedRotatingKVCache": "buffered",
    "ChunkedKVCache": "chunked",
    "BatchKVCache": "batch",
    "BatchRotatingKVCache": "batch_rotating",
    "ArraysCache": "recurrent",
}
ATTRIBUTE = "_mlxdiag"
_EMPTY: dict[str, Any] = {}

Counters = tuple[Offset, int | None, int | None, int | None, int | None]
"""offset, cursor, live_start, live, buffer"""


class Tag:
    """Kept in the cache's `__dict__`, so that it costs one look-up and goes with the cache into a deep
    copy.
    """

    __slots__ = (
        "alike",
        "batched",
        "home",
        "index",
        "keep",
        "kind",
        "kv_bits",
        "layer",
        "left",
        "lengths",
        "model",
        "name",
        "offsets",
        "part",
        "placed",
        "read",
        "right",
        "slack",
        "uid",
        "window",
    )

    def __init__(self, cache: Any) -> None:
        self.home = id(cache)
        self.uid = next(UIDS)
        self.name = type(cache).__name__
        self.kind = kind_of(type(cache))
        self.batched = self.kind in ("batch", "batch_rotating")
        front_trimmed = self.kind == "dense" and hasattr(cache, "live_start")
        self.read = _front_trimmed if front_trimmed else _READERS.get(self.kind, _nothing)
        values = [getattr(cache, n, None) for n in ("max_size", "chunk_size", "window")]
        self.window: int | None = next((v for v in values if v is not None), None)
        self.keep: int | None = getattr(cache, "keep", None) or getattr(cache, "sinks", None)
        self.slack: int | None = getattr(cache, "slack", None)
        self.kv_bits: int | None = getattr(cache, "bits", None)
        self.alike = (self.kind, self.window, self.keep, self.slack, self.kv_bits)
        """What a trace tells of the cache itself."""
        self.index: int | None = None
        self.part = 0
        """Place among the members of a compound cache."""
        self.layer: int | None = None
        self.model: str | None = None
        self.placed = False
        """Whether `index`, `part`, `layer` and `model` have been looked for."""
        self.offsets: list[int] | None = None
        self.left: list[int] | None = None
        self.right: list[int] | None = None
        """Right padding of a `BatchKVCache` that waits for `finalize`."""
        self.lengths: list[int] | None = None
        """Offsets at which the rows of a `BatchRotatingKVCache` really end, until `finalize`."""

    def offset_of(self, cache: Any) -> Offset:
        """The cache's offset now, without reading an array."""
        return self.read(cache, self)[0]


OnCopy = Callable[[Any, Tag, int], None]
"""Told of a copied cache, its tag, and the uid of the original."""


def kind_of(cls: type) -> str:
    """The cache kind of a class or of its nearest known ancestor; "unknown" for a foreign one."""
    return next((KINDS[c.__name__] for c in cls.__mro__ if c.__name__ in KINDS), "unknown")


def tag_of(cache: Any, on_copy: OnCopy | None = None) -> Tag:
    """The cache's tag, made on first sight. A deep copy gets one of its own, announced with its parent's
    uid.
    """
    tag: Tag | None = cache.__dict__.get(ATTRIBUTE)
    if tag is not None and tag.home == id(cache):
        return tag
    fresh = Tag(cache)
    if tag is not None:
        for name in ("offsets", "left", "right", "lengths", "index", "part", "layer", "model", "placed"):
            setattr(fresh, name, getattr(tag, name))
        if on_copy is not None:
            on_copy(cache, fresh, tag.uid)
    cache.__dict__[ATTRIBUTE] = fresh
    return fresh


def uids_of(caches: Any, on_copy: OnCopy | None = None) -> list[int]:
    """Uids of a prompt cache list, tagging what has none yet; members of compound caches one by one."""
    if not isinstance(caches, list | tuple):
        return []
    found = []
    for entry in caches:
        held = getattr(entry, "__dict__", _EMPTY)
        tag = held.get(ATTRIBUTE)
        if tag is not None and tag.home == id(entry):
            found.append(tag.uid)
            continue
        members = held.get("caches") if held is not _EMPTY else ()
        found += [tag_of(cache, on_copy).uid for cache in ((entry,) if members is None else members)]
    return found


def _slots(cache: Any) -> int:
    return 0 if cache.keys is None else int(cache.keys.shape[2])


def _dense(cache: Any, _: Tag) -> Counters:
    offset, keys = cache.offset, cache.keys
    return offset, offset, 0, offset, 0 if keys is None else keys.shape[2]


def _front_trimmed(cache: Any, _: Tag) -> Counters:
    offset, start = cache.offset, cache.live_start
    return offset, offset, start, offset - start, _slots(cache)


def _quantized(cache: Any, _: Tag) -> Counters:
    offset, keys = cache.offset, cache.keys
    return offset, offset, 0, offset, 0 if keys is None else keys[0].shape[2]


def _chunked(cache: Any, _: Tag) -> Counters:
    offset, start = cache.offset, cache.start_position
    return offset, offset, start, offset - start, _slots(cache)


def _rotating(cache: Any, _: Tag) -> Counters:
    offset, slots = cache.offset, _slots(cache)
    live = offset if offset < slots else slots
    return offset, offset, offset - live, live, slots


def _batch(cache: Any, tag: Tag) -> Counters:
    cursor = cache._idx
    return tag.offsets, cursor, 0, cursor, _slots(cache)


def _batch_rotating(cache: Any, tag: Tag) -> Counters:
    cursor, slots = cache._offset, _slots(cache)
    live = cursor if cursor < slots else slots
    return tag.offsets, cursor, cursor - live, live, slots


def _nothing(_cache: Any, _tag: Tag) -> Counters:
    return None, None, None, None, None


_READERS: dict[str, Callable[[Any, Tag], Counters]] = {
    "dense": _dense,
    "quantized": _quantized,
    "rotating": _rotating,
    "buffered": _rotating,
    "chunked": _chunked,
    "batch": _batch,
    "batch_rotating": _batch_rotating,
}
