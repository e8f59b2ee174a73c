"""Faults that show late: in a turned ring, a grown buffer, a large batch, at a far position."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mlx.core as mx

from mlxdiag.audit.plants.bed import Bed

FAR = 40
"""Position from which `positions_off_far_out` places tokens too far."""
MANY = 4
"""Rows up to which `large_batches_sharpened` does nothing."""


def filter_keeps_shifted_padding(bed: Bed) -> None:
    """A filter that cuts off what padding all rows share goes on counting it."""

    def wrap(original: Callable[..., Any]) -> Callable[..., Any]:
        def filter(cache: Any, batch_indices: Any) -> None:
            before = cache._idx
            original(cache, batch_indices)
            shift = before - cache._idx
            bed.note(shift > 0)
            cache.left_padding = cache.left_padding + shift

        return filter

    bed.method(("BatchKVCache",), "filter", wrap)


def filter_cuts_values_at_the_end(bed: Bed) -> None:
    """A filter that cuts off what padding all rows share takes it off the end of the values."""

    def wrap(original: Callable[..., Any]) -> Callable[..., Any]:
        def filter(cache: Any, batch_indices: Any) -> None:
            before, values = cache._idx, cache.values
            original(cache, batch_indices)
            shift = before - cache._idx
            bed.note(shift > 0)
            if shift > 0 and values is not None:
                cache.values = values[batch_indices][..., :-shift, :]

        return filter

    bed.method(("BatchKVCache",), "filter", wrap)


def merge_takes_slots_for_order(bed: Bed) -> None:
    """A merge copies the slots of a turned ring as they lie."""

    def wrap(original: Callable[..., Any]) -> Callable[..., Any]:
        def merge(cls: Any, caches: Any) -> Any:
            class_of = type(caches[0])
            held = class_of._temporal_order
            for cache in caches:
                turned = cache.keys is not None and cache._idx < min(cache.offset, cache.keys.shape[2])
                bed.note(turned)
            class_of._temporal_order = lambda _cache, slots: slots
            try:
                return original(cls, caches)
            finally:
                class_of._temporal_order = held

        return merge

    bed.method(("BatchRotatingKVCache",), "merge", wrap)


def ring_size_unbounded(bed: Bed) -> None:
    """A ring says that it holds all tokens that it ever took."""

    def wrap(original: Callable[..., Any]) -> Callable[..., Any]:
        def size(cache: Any) -> int:
            bed.note(original(cache) != cache.offset)
            return int(cache.offset)

        return size

    bed.method(("RotatingKVCache",), "size", wrap)


def growth_loses_newest(bed: Bed) -> None:
    """A dense cache whose buffer grows keeps one token less of the old one."""

    def wrap(original: Callable[..., Any]) -> Callable[..., Any]:
        def update_and_fetch(cache: Any, keys: Any, values: Any) -> Any:
            held = cache.offset
            if held and held + keys.shape[2] > cache.keys.shape[2]:
                bed.note(True)
                cache.keys = _without(cache.keys, held - 1)
                cache.values = _without(cache.values, held - 1)
            return original(cache, keys, values)

        return update_and_fetch

    bed.method(("KVCache",), "update_and_fetch", wrap)


def _without(held: Any, slot: int) -> Any:
    """[B, heads, slots, D] with nothing but zeros in one slot."""
    kept = mx.arange(held.shape[2]) != slot
    return held * kept[None, None, :, None].astype(held.dtype)


def large_batches_sharpened(bed: Bed) -> None:
    """Batches of more than `MANY` rows are scored with twice the scale."""

    def change(queries: Any, _cache: Any, _mask: Any, _sinks: Any) -> dict[str, Any]:
        large = queries.shape[0] > MANY
        bed.note(large)
        return {"queries": 2 * queries} if large else {}

    bed.attention(change)


def positions_off_far_out(bed: Bed) -> None:
    """What comes in a call that begins at `FAR` or later is placed one further."""

    def change(_module: Any, _length: int, offset: Any) -> Any:
        if isinstance(offset, mx.array):
            return offset + (offset >= FAR).astype(offset.dtype)
        return offset + 1 if offset >= FAR else offset

    bed.ropes(change)
