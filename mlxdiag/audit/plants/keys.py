"""Faults of what a cache holds: keys clamped or overwritten, a ring that turns wrongly, a trim not kept."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mlx.core as mx
import mlx_lm.models.cache as library_caches

from mlxdiag.audit.plants.bed import BATCHES, SINGLE, Bed, Install


def keys_clamped(bed: Bed) -> None:
    """A continuation on a ring keeps and returns only the last W keys, its own included; masks follow."""

    def update(original: Callable[..., Any]) -> Callable[..., Any]:
        def update_and_fetch(cache: Any, keys: Any, values: Any) -> Any:
            continued = keys.shape[2] > 1 and cache.keys is not None
            returned = original(cache, keys, values)
            if not continued or cache.keys.shape[2] <= cache.max_size:
                return returned
            bed.note(True)
            cache.keys, cache.values = (a[..., -cache.max_size :, :] for a in (cache.keys, cache.values))
            cache._idx = cache.max_size
            return cache.keys, cache.values

        return update_and_fetch

    def mask(original: Callable[..., Any]) -> Callable[..., Any]:
        def make_mask(cache: Any, N: int, **kwargs: Any) -> Any:
            right = original(cache, N, **kwargs)
            if N == 1 or cache.keys is None or not isinstance(right, mx.array):
                return right
            return right[..., -cache.max_size :]

        return make_mask

    bed.method(("RotatingKVCache",), "update_and_fetch", update)
    bed.method(("RotatingKVCache",), "make_mask", mask)


def oldest_dropped(bed: Bed) -> None:
    """A dense cache returns all keys but the oldest, once it holds more than one call; masks follow."""

    def update(original: Callable[..., Any]) -> Callable[..., Any]:
        def update_and_fetch(cache: Any, keys: Any, values: Any) -> Any:
            held = cache.offset
            returned = original(cache, keys, values)
            bed.note(held > 0)
            return tuple(a[..., 1:, :] for a in returned) if held > 0 else returned

        return update_and_fetch

    def mask(original: Callable[..., Any]) -> Callable[..., Any]:
        def make_mask(cache: Any, *args: Any, **kwargs: Any) -> Any:
            right = original(cache, *args, **kwargs)
            return right[..., 1:] if cache.offset > 0 and isinstance(right, mx.array) else right

        return make_mask

    bed.method(("KVCache",), "update_and_fetch", update)
    bed.method(("KVCache",), "make_mask", mask)


def offset_slips(bed: Bed) -> None:
    """The second update of a cache is written one slot early, over the newest key of the first."""

    def wrap(original: Callable[..., Any]) -> Callable[..., Any]:
        def update_and_fetch(cache: Any, keys: Any, values: Any) -> Any:
            if cache.offset > 0 and not cache.__dict__.get("_planted_slipped"):
                cache.__dict__["_planted_slipped"] = True
                cache.offset -= 1
                if hasattr(cache, "_idx"):
                    cache._idx = max(cache._idx - 1, 0)
                bed.note(True)
            return original(cache, keys, values)

        return update_and_fetch

    bed.method(SINGLE, "update_and_fetch", wrap)


def ring_sized(by: int) -> Install:
    """Rings hold a key more or less than they are asked to."""

    def install(bed: Bed) -> None:
        def wrap(original: Callable[..., Any]) -> Callable[..., Any]:
            def __init__(cache: Any, max_size: int, keep: int = 0) -> None:
                bed.note(True)
                original(cache, max_size + by, keep)

            return __init__

        bed.method(("RotatingKVCache",), "__init__", wrap)

    return install


def ring_restarts_late(bed: Bed) -> None:
    """A full ring goes on one slot after its first: the oldest key stays for ever, the next one goes."""

    def wrap(original: Callable[..., Any]) -> Callable[..., Any]:
        def _update_in_place(cache: Any, keys: Any, values: Any) -> Any:
            full = cache.keys is not None and cache._idx == cache.max_size == cache.keys.shape[2]
            if full:
                bed.note(True)
                cache._idx = cache.keep + 1
            return original(cache, keys, values)

        return _update_in_place

    bed.method(("RotatingKVCache",), "_update_in_place", wrap)


def pinned_sinks_lost(bed: Bed) -> None:
    """A ring that is to keep its first keys lets them go with the others."""

    def wrap(original: Callable[..., Any]) -> Callable[..., Any]:
        def update_and_fetch(cache: Any, keys: Any, values: Any) -> Any:
            held, cache.keep = cache.keep, 0
            try:
                bed.note(held > 0 and cache.offset + keys.shape[2] > cache.max_size)
                return original(cache, keys, values)
            finally:
                cache.keep = held

        return update_and_fetch

    bed.method(("RotatingKVCache",), "update_and_fetch", wrap)


def trim_by(more: int) -> Install:
    """A trim takes back more or fewer tokens than it was asked to, and reports what it was asked."""

    def install(bed: Bed) -> None:
        def wrap(original: Callable[..., Any]) -> Callable[..., Any]:
            def trim(cache: Any, n: int) -> Any:
                if n <= 0:
                    return original(cache, n)
                done = original(cache, n + more)
                bed.note(True)
                return min(done - more, n)

            return trim

        bed.method(SINGLE + BATCHES, "trim", wrap)

    return install


def trim_skips_a_layer(bed: Bed) -> None:
    """One layer in the middle of the list keeps what all others give back."""

    def wrap(original: Callable[..., Any]) -> Callable[..., Any]:
        def trim_prompt_cache(cache: Any, num_tokens: int) -> Any:
            if not library_caches.can_trim_prompt_cache(cache) or not cache:
                return original(cache, num_tokens)
            skipped = len(cache) // 2
            done = [c.trim(num_tokens) if i != skipped else num_tokens for i, c in enumerate(cache)]
            bed.note(num_tokens > 0)
            return done[0]

        return trim_prompt_cache

    bed.function(library_caches, "trim_prompt_cache", wrap)


def cursor_kept_by_trim(bed: Bed) -> None:
    """A ring's trim moves its offset and forgets the slot that it writes next."""

    def wrap(original: Callable[..., Any]) -> Callable[..., Any]:
        def trim(cache: Any, n: int) -> Any:
            held = cache._idx
            done = original(cache, n)
            bed.note(cache._idx != held)
            cache._idx = held
            return done

        return trim

    bed.method(("RotatingKVCache",), "trim", wrap)


def quantised_group_lost(bed: Bed) -> None:
    """Turning a cache into a quantised one loses the first group of each key of the first head."""

    def wrap(original: Callable[..., Any]) -> Callable[..., Any]:
        def to_quantized(cache: Any, *args: Any, **kwargs: Any) -> Any:
            quantised = original(cache, *args, **kwargs)
            if quantised.keys is not None:
                bed.note(True)
                packed, scales, biases = quantised.keys
                quantised.keys = (packed, _without_first_group(scales), _without_first_group(biases))
            return quantised

        return to_quantized

    bed.method(("KVCache",), "to_quantized", wrap)


def _without_first_group(array: Any) -> Any:
    """[B, H, L, groups] with zeros in the first group of the first head."""
    kept = mx.ones(array.shape, dtype=array.dtype)
    kept[:, 0, :, 0] = 0
    return array * kept


def quantised_offset_short(bed: Bed) -> None:
    """Turning a cache into a quantised one loses its newest token."""

    def wrap(original: Callable[..., Any]) -> Callable[..., Any]:
        def to_quantized(cache: Any, *args: Any, **kwargs: Any) -> Any:
            quantised = original(cache, *args, **kwargs)
            bed.note(quantised.offset > 0)
            quantised.offset = max(quantised.offset - 1, 0)
            return quantised

        return to_quantized

    bed.method(("KVCache",), "to_quantized", wrap)
