"""Faults of what a cache holds: keys clamped, dropped or of another sequence, crops not kept, states lost."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from transformers import cache_utils

from mlxdiag.audit.plants.torch.bed import Bed, Install

SLIDING = ("DynamicSlidingWindowLayer",)
FULL = ("DynamicLayer",)
CROPPED = ("DynamicLayer", "DynamicSlidingWindowLayer", "StaticLayer")


def keys_clamped(bed: Bed) -> None:
    """A continuation by several tokens returns only the last W keys, its own included; masks follow."""

    def update(original: Callable[..., Any]) -> Callable[..., Any]:
        def update(layer: Any, keys: Any, values: Any, *args: Any, **kwargs: Any) -> Any:
            clamped = _clamps(layer, keys.shape[-2])
            returned = original(layer, keys, values, *args, **kwargs)
            bed.note(clamped)
            return tuple(a[..., -layer.sliding_window :, :] for a in returned) if clamped else returned

        return update

    def sizes(original: Callable[..., Any]) -> Callable[..., Any]:
        def get_mask_sizes(layer: Any, query_length: int) -> Any:
            length, offset = original(layer, query_length)
            if not _clamps(layer, query_length):
                return length, offset
            return layer.sliding_window, offset + length - layer.sliding_window

        return get_mask_sizes

    bed.method(SLIDING, "update", update)
    bed.method(SLIDING, "get_mask_sizes", sizes)


def _clamps(layer: Any, query: int) -> bool:
    held = min(layer.cumulative_length, layer.sliding_window - 1)
    return bool(held and query > 1 and held + query > layer.sliding_window)


def oldest_dropped(bed: Bed) -> None:
    """A full layer returns all keys but the oldest, once it holds more than one call; masks follow."""

    def update(original: Callable[..., Any]) -> Callable[..., Any]:
        def update(layer: Any, keys: Any, values: Any, *args: Any, **kwargs: Any) -> Any:
            drops = _plain(layer) and layer.get_seq_length() > 0
            returned = original(layer, keys, values, *args, **kwargs)
            bed.note(drops)
            return tuple(a[..., 1:, :] for a in returned) if drops else returned

        return update

    def sizes(original: Callable[..., Any]) -> Callable[..., Any]:
        def get_mask_sizes(layer: Any, query_length: int) -> Any:
            length, offset = original(layer, query_length)
            return (length - 1, offset + 1) if _plain(layer) and length > query_length else (length, offset)

        return get_mask_sizes

    bed.method(FULL, "update", update)
    bed.method(FULL, "get_mask_sizes", sizes)


def _plain(layer: Any) -> bool:
    return type(layer) is cache_utils.DynamicLayer


def ring_sized(by: int) -> Install:
    """Sliding layers keep a key more or less than they are asked to; masks follow what they say."""

    def install(bed: Bed) -> None:
        def wrap(original: Callable[..., Any]) -> Callable[..., Any]:
            def __init__(layer: Any, sliding_window: int, **kwargs: Any) -> None:
                bed.note(True)
                original(layer, sliding_window + by, **kwargs)

            return __init__

        bed.method(SLIDING, "__init__", wrap)

    return install


def crop_by(more: int) -> Install:
    """A crop takes back more or fewer tokens than it was asked to."""

    def install(bed: Bed) -> None:
        busy: list[int] = []

        def wrap(original: Callable[..., Any]) -> Callable[..., Any]:
            def crop(layer: Any, tokens_to_remove: int) -> None:
                if busy or not tokens_to_remove:
                    original(layer, tokens_to_remove)
                    return
                bed.note(True)
                busy.append(1)
                try:
                    original(layer, tokens_to_remove - more)
                finally:
                    busy.pop()

            return crop

        bed.method(CROPPED, "crop", wrap)

    return install


def crop_skips_a_layer(bed: Bed) -> None:
    """One layer in the middle keeps what all others give back."""

    def wrap(_original: Callable[..., Any]) -> Callable[..., Any]:
        def crop(cache: Any, tokens_to_remove: int) -> None:
            skipped = len(cache.layers) // 2
            bed.note(tokens_to_remove)
            for place, layer in enumerate(cache.layers):
                if place != skipped:
                    layer.crop(tokens_to_remove)

        return crop

    bed.function(cache_utils.Cache, "crop", wrap)


def rows_rolled(bed: Bed) -> None:
    """Rows are taken out of a batch one too far."""

    def wrap(original: Callable[..., Any]) -> Callable[..., Any]:
        def batch_select_indices(layer: Any, indices: Any) -> None:
            rows = layer.keys.shape[0] if layer.keys is not None else 1
            bed.note(rows > 1)
            original(layer, (indices + 1) % rows)

        return batch_select_indices

    bed.method(FULL, "batch_select_indices", wrap)


def first_layer_shared(bed: Bed) -> None:
    """Every cache of one model has the same first layer."""
    first: dict[int, Any] = {}

    def wrap(original: Callable[..., Any]) -> Callable[..., Any]:
        def __init__(cache: Any, *args: Any, **kwargs: Any) -> None:
            original(cache, *args, **kwargs)
            config = kwargs.get("config")
            if config is None or not cache.layers:
                return
            shared = first.setdefault(id(config), cache.layers[0])
            if shared is not cache.layers[0]:
                bed.note(getattr(shared, "is_initialized", True))
                cache.layers[0] = shared

        return __init__

    bed.function(cache_utils.DynamicCache, "__init__", wrap)


def state_lost(bed: Bed) -> None:
    """Convolutions begin every call with nothing before it."""

    def wrap(original: Callable[..., Any]) -> Callable[..., Any]:
        def update_conv_state(layer: Any, conv_states: Any, state_idx: int = 0, **kwargs: Any) -> Any:
            if layer.conv_states[state_idx] is not None:
                bed.note(True)
                layer.conv_states[state_idx] = torch.zeros_like(layer.conv_states[state_idx])
            return original(layer, conv_states, state_idx, **kwargs)

        return update_conv_state

    bed.method(("LinearAttentionLayer",), "update_conv_state", wrap)


def static_offset_ahead(bed: Bed) -> None:
    """A full static layer with a window says that its first key is one further than it is."""

    def wrap(original: Callable[..., Any]) -> Callable[..., Any]:
        def get_mask_sizes(layer: Any, query_length: int) -> Any:
            length, offset = original(layer, query_length)
            bed.note(offset)
            return length, offset + (1 if offset else 0)

        return get_mask_sizes

    bed.method(("StaticSlidingWindowLayer",), "get_mask_sizes", wrap)


def scale_lost(bed: Bed) -> None:
    """Values that come back from 8 bits are a twentieth too large."""

    def update(original: Callable[..., Any]) -> Callable[..., Any]:
        def update(layer: Any, keys: Any, values: Any, *args: Any, **kwargs: Any) -> Any:
            returned = original(layer, keys, values, *args, **kwargs)
            if returned[0] is keys:
                return returned  # the first update, which rounds nothing yet
            bed.note(True)
            return returned[0], returned[1] * 1.05

        return update

    bed.method(("Fp8QuantizedLayer",), "update", update)
