"""Faults of masks: a window or a diagonal off by one, no window at all, padding shown, a stale offset."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from transformers import masking_utils

from mlxdiag.audit.plants.torch.bed import Bed, Install

EVERYTHING = 1 << 20
"""A window that no schedule reaches."""


def window(change: Callable[[int], int]) -> Install:
    """Every sliding mask is built with another window than the one asked for."""

    def install(bed: Bed) -> None:
        def wrap(original: Callable[..., Any]) -> Callable[..., Any]:
            def sliding_window_overlay(sliding_window: int) -> Any:
                bed.note(True)
                return original(change(sliding_window))

            return sliding_window_overlay

        bed.function(masking_utils, "sliding_window_overlay", wrap)

    return install


def future_visible(bed: Bed) -> None:
    """Each query also sees the token after it, wherever a mask is an array."""

    def wrap(_original: Callable[..., Any]) -> Callable[..., Any]:
        def causal_mask_function(_batch: Any, _head: Any, q_idx: Any, kv_idx: Any) -> Any:
            bed.note(True)
            return kv_idx <= q_idx + 1

        return causal_mask_function

    bed.function(masking_utils, "causal_mask_function", wrap)


def padding_shown(bed: Bed) -> None:
    """Padding in front of a row is not masked."""

    def wrap(_original: Callable[..., Any]) -> Callable[..., Any]:
        def padding_mask_function(padding_mask: Any) -> Any:
            bed.note(not bool(padding_mask.all()))
            return lambda _batch, _head, _query, kv_idx: kv_idx >= 0

        return padding_mask_function

    bed.function(masking_utils, "padding_mask_function", wrap)


def blocks_dropped(bed: Bed) -> None:
    """Chunked attention without its blocks: plain causal."""

    def wrap(original: Callable[..., Any]) -> Callable[..., Any]:
        def chunked_overlay(_chunk_size: int, left_padding: Any) -> Any:
            bed.note(True)
            return original(EVERYTHING, left_padding)

        return chunked_overlay

    bed.function(masking_utils, "chunked_overlay", wrap)


def stale_offset(bed: Bed) -> None:
    """Masks for several tokens are built as if the last call had not been; their size is right."""

    def wrap(original: Callable[..., Any]) -> Callable[..., Any]:
        def _preprocess_mask_arguments(*args: Any, **kwargs: Any) -> Any:
            made = list(original(*args, **kwargs))
            q_length, q_offset = made[3], made[5]
            if q_length is not None and isinstance(q_offset, int) and q_offset > 0 and q_length > 1:
                bed.note(True)
                made[5] = max(q_offset - q_length, 0)
            return tuple(made)

        return _preprocess_mask_arguments

    bed.function(masking_utils, "_preprocess_mask_arguments", wrap)
