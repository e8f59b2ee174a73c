"""Faults of masks: a window or a diagonal off by one, no window at all, an offset of an earlier call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mlx.core as mx
import mlx_lm.models.base as library_base

from mlxdiag.audit.plants.bed import RINGS, Bed, Install, same

EVERYTHING = 1 << 20
"""A window that no schedule reaches."""

CURSORS = {
    "KVCache": "offset",
    "RotatingKVCache": "offset",
    "BatchKVCache": "_idx",
    "BatchRotatingKVCache": "_offset",
}
"""What each class builds its masks from."""


def window(change: Callable[[int], int]) -> Install:
    """Every sliding mask is built with another window than the one asked for."""

    def install(bed: Bed) -> None:
        def ring(original: Callable[..., Any]) -> Callable[..., Any]:
            def make_mask(
                cache: Any, N: int, window_size: int | None = None, return_array: bool = False
            ) -> Any:
                right = original(cache, N, window_size=window_size, return_array=return_array)
                wrong = original(
                    cache, N, window_size=change(window_size or cache.max_size), return_array=return_array
                )
                bed.note(not same(right, wrong, N))
                return wrong

            return make_mask

        def dense(original: Callable[..., Any]) -> Callable[..., Any]:
            def make_mask(cache: Any, N: int, **kwargs: Any) -> Any:
                asked = kwargs.get("window_size")
                if asked is None:
                    return original(cache, N, **kwargs)
                right, wrong = (
                    original(cache, N, **{**kwargs, "window_size": w}) for w in (asked, change(asked))
                )
                bed.note(not same(right, wrong, N))
                return wrong

            return make_mask

        def uncached(original: Callable[..., Any]) -> Callable[..., Any]:
            def create_attention_mask(
                h: Any, cache: Any = None, window_size: int | None = None, return_array: bool = False
            ) -> Any:
                right = original(h, cache, window_size=window_size, return_array=return_array)
                if cache or window_size is None:
                    return right
                wrong = original(h, cache, window_size=change(window_size), return_array=return_array)
                bed.note(not same(right, wrong, h.shape[1]))
                return wrong

            return create_attention_mask

        bed.method(RINGS, "make_mask", ring)
        bed.method(("KVCache", "QuantizedKVCache", "BatchKVCache"), "make_mask", dense)
        bed.function(library_base, "create_attention_mask", uncached)

    return install


def future_visible(bed: Bed) -> None:
    """Each query also sees the token after it."""

    def change(mask: Any, length: int, _cache: Any) -> Any:
        columns = mx.arange(mask.shape[-1])
        own = mask.shape[-1] - length + mx.arange(length)[:, None]
        return mask | (columns == own + 1)

    bed.masks(change)


def self_hidden(bed: Bed) -> None:
    """No query sees its own key, where it sees another one."""

    def change(mask: Any, length: int, _cache: Any) -> Any:
        columns = mx.arange(mask.shape[-1])
        own = mask.shape[-1] - length + mx.arange(length)[:, None]
        wrong = mask & (columns != own)
        return mx.where(wrong.any(axis=-1, keepdims=True), wrong, mask)

    bed.masks(change)


def stale_offset(fitted: bool) -> Install:
    """Masks are built from the offset that the cache had before its last update.

    `fitted`: they are then filled up to the keys, so that nothing but their content is wrong.
    """

    def install(bed: Bed) -> None:
        for name, cursor in CURSORS.items():
            bed.method((name,), "update_and_fetch", _remembering(cursor))
            bed.method((name,), "make_mask", _stale(bed, cursor, fitted))

    return install


def _remembering(cursor: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def wrap(original: Callable[..., Any]) -> Callable[..., Any]:
        def update_and_fetch(cache: Any, keys: Any, values: Any) -> Any:
            cache.__dict__["_planted_before"] = getattr(cache, cursor)
            return original(cache, keys, values)

        return update_and_fetch

    return wrap


def _stale(bed: Bed, cursor: str, fitted: bool) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def wrap(original: Callable[..., Any]) -> Callable[..., Any]:
        def make_mask(cache: Any, N: int, **kwargs: Any) -> Any:
            now, before = getattr(cache, cursor), cache.__dict__.get("_planted_before")
            if N == 1 or before is None or before == now:
                return original(cache, N, **kwargs)
            arrays = {**kwargs, "return_array": True}
            right = original(cache, N, **arrays)
            setattr(cache, cursor, before)
            try:
                wrong = original(cache, N, **arrays)
            finally:
                setattr(cache, cursor, now)
            missing = right.shape[-1] - wrong.shape[-1]
            if fitted and missing > 0:
                wrong = mx.pad(wrong, [(0, 0)] * (wrong.ndim - 1) + [(0, missing)])
            bed.note(not same(right, wrong, N))
            return wrong

        return make_mask

    return wrap


def blocks_dropped(bed: Bed) -> None:
    """Chunked attention without its blocks: plain causal."""

    def change(queries: Any, cache: Any, mask: Any, _sinks: Any) -> dict[str, Any]:
        if type(cache).__name__ != "ChunkedKVCache" or not isinstance(mask, mx.array):
            return {}
        wrong = None if queries.shape[2] == 1 else "causal"
        bed.note(not same(mask, wrong, queries.shape[2]))
        return {"mask": wrong}

    bed.attention(change)


def sinks_dropped(bed: Bed) -> None:
    """The learned sink term of the softmax is left out of single-token calls, as another kernel might."""

    def change(queries: Any, _cache: Any, _mask: Any, sinks: Any) -> dict[str, Any]:
        if sinks is None or queries.shape[2] > 1:
            return {}
        bed.note(True)
        return {"sinks": None}

    bed.attention(change)
