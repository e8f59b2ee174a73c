"""Faults of state: shared by sequences, lost between calls or on the way through a file, positions off."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mlx.core as mx
import mlx_lm.models.cache as library_caches

from mlxdiag.audit.plants.bed import STATES, Bed, Install, leaves


def first_cache_shared(bed: Bed) -> None:
    """Every sequence on a model is given the same cache for its first layer."""
    first: dict[int, Any] = {}

    def wrap(original: Callable[..., Any]) -> Callable[..., Any]:
        def make_prompt_cache(model: Any, *args: Any, **kwargs: Any) -> Any:
            caches = original(model, *args, **kwargs)
            shared = first.setdefault(id(model), caches[0])
            if shared is not caches[0]:
                bed.note(not shared.empty())
                caches[0] = shared
            return caches

        return make_prompt_cache

    bed.function(library_caches, "make_prompt_cache", wrap)


def state_on_the_layer(bed: Bed) -> None:
    """Recurrent layers keep their state themselves: each call goes on from the last one, whoever made it."""
    last: dict[tuple[Any, int], Any] = {}

    def made(original: Callable[..., Any]) -> Callable[..., Any]:
        def make_prompt_cache(model: Any, *args: Any, **kwargs: Any) -> Any:
            caches = original(model, *args, **kwargs)
            for place, leaf in enumerate(leaves(caches)):
                leaf.__dict__["_planted_place"] = place
            return caches

        return make_prompt_cache

    def written(original: Callable[..., Any]) -> Callable[..., Any]:
        def __setitem__(cache: Any, idx: int, value: Any) -> None:
            last[cache.__dict__.get("_planted_place"), idx] = value
            original(cache, idx, value)

        return __setitem__

    def read(original: Callable[..., Any]) -> Callable[..., Any]:
        def __getitem__(cache: Any, idx: int) -> Any:
            own, place = original(cache, idx), cache.__dict__.get("_planted_place")
            strange = last.get((place, idx))
            if place is None or strange is None or strange is own or isinstance(strange, list):
                return own
            if own is not None and own.shape != strange.shape:
                return own
            bed.note(True)
            return strange

        return __getitem__

    bed.function(library_caches, "make_prompt_cache", made)
    bed.method(STATES, "__setitem__", written)
    bed.method(STATES, "__getitem__", read)


def state_lost(slot: int) -> Install:
    """Recurrent layers find one part of their state empty at every call."""

    def install(bed: Bed) -> None:
        def wrap(original: Callable[..., Any]) -> Callable[..., Any]:
            def __getitem__(cache: Any, idx: int) -> Any:
                own = original(cache, idx)
                if not isinstance(idx, int) or idx != slot % len(cache.cache) or own is None:
                    return own
                bed.note(True)
                return mx.zeros_like(own) if isinstance(own, mx.array) else own

            return __getitem__

        bed.method(STATES, "__getitem__", wrap)

    return install


def position_on_the_module(bed: Bed) -> None:
    """RoPE modules count positions themselves: a sequence goes on where the last one stopped."""
    seen: dict[int, tuple[int, int, int, int]] = {}

    def change(module: Any, length: int, offset: Any) -> Any:
        if not isinstance(offset, int):
            return offset
        true, width, wrong, onward = seen.get(id(module), (-1, -1, 0, 0))
        if (true, width) != (offset, length):
            # Queries and keys of one call come with the same offset.
            wrong = onward if offset > 0 else 0
            onward = wrong + length
        seen[id(module)] = offset, length, wrong, onward
        return wrong

    bed.ropes(change)


def rope_stale(bed: Bed) -> None:
    """Positions are those before the tokens of the last call of this length were counted."""

    def change(_module: Any, length: int, offset: Any) -> Any:
        return mx.maximum(offset - length, 0) if isinstance(offset, mx.array) else max(offset - length, 0)

    bed.ropes(change)


def rope_ahead_in_decode(bed: Bed) -> None:
    """Single tokens are placed one further than they are."""

    def change(_module: Any, length: int, offset: Any) -> Any:
        return offset + 1 if length == 1 else offset

    bed.ropes(change)


def load_takes_buffer_for_offset(bed: Bed) -> None:
    """A dense cache that comes from a file takes its buffer, spare slots included, for its keys."""

    def change(cache: Any) -> bool:
        if type(cache).__name__ != "KVCache" or cache.keys is None or cache.offset == cache.keys.shape[2]:
            return False
        cache.offset = cache.keys.shape[2]
        return True

    _loaded(bed, change)


def load_takes_quantised_buffer(bed: Bed) -> None:
    """A quantised cache that comes from a file takes its buffer, spare slots included, for its keys."""

    def change(cache: Any) -> bool:
        if type(cache).__name__ != "QuantizedKVCache" or cache.keys is None:
            return False
        held, cache.offset = cache.offset, cache.keys[0].shape[2]
        return bool(held != cache.offset)

    _loaded(bed, change)


def load_loses_offset(bed: Bed) -> None:
    """A cache that comes from a file counts one token less than it holds."""

    def change(cache: Any) -> bool:
        if not isinstance(getattr(cache, "offset", None), int) or cache.offset == 0:
            return False
        cache.offset -= 1
        return True

    _loaded(bed, change)


def load_loses_cursor(bed: Bed) -> None:
    """A ring that comes from a file takes its slots for being in order."""

    def change(cache: Any) -> bool:
        if type(cache).__name__ != "RotatingKVCache" or cache.keys is None:
            return False
        held, cache._idx = cache._idx, min(cache.offset, cache.keys.shape[2])
        return bool(held != cache._idx)

    _loaded(bed, change)


def load_loses_state(bed: Bed) -> None:
    """A recurrent layer that comes from a file begins anew."""

    def change(cache: Any) -> bool:
        if type(cache).__name__ != "ArraysCache" or cache.empty():
            return False
        cache.cache = [mx.zeros_like(part) if isinstance(part, mx.array) else part for part in cache.cache]
        return True

    _loaded(bed, change)


def _loaded(bed: Bed, change: Callable[[Any], bool]) -> None:
    def wrap(original: Callable[..., Any]) -> Callable[..., Any]:
        def load_prompt_cache(*args: Any, **kwargs: Any) -> Any:
            loaded = original(*args, **kwargs)
            for cache in leaves(loaded[0] if isinstance(loaded, tuple) else loaded):
                bed.note(change(cache))
            return loaded

        return load_prompt_cache

    bed.function(library_caches, "load_prompt_cache", wrap)


def load_swaps_layers(bed: Bed) -> None:
    """The first two caches of one class come out of the file in each other's place."""

    def wrap(original: Callable[..., Any]) -> Callable[..., Any]:
        def load_prompt_cache(*args: Any, **kwargs: Any) -> Any:
            loaded = original(*args, **kwargs)
            caches = loaded[0] if isinstance(loaded, tuple) else loaded
            for later in range(1, len(caches)):
                if type(caches[later]) is type(caches[0]):
                    bed.note(True)
                    caches[0], caches[later] = caches[later], caches[0]
                    break
            return loaded

        return load_prompt_cache

    bed.function(library_caches, "load_prompt_cache", wrap)
