"""Keys of MLX as words, for `models.content`."""

from __future__ import annotations

from typing import Any

import mlx.core as mx
import numpy as np

from mlxdiag.models import content
from mlxdiag.models.content import Ints

_WORDS = {1: mx.uint8, 2: mx.uint16, 4: mx.uint32}
_NAMES = {mx.float32: "float32", mx.float16: "float16", mx.bfloat16: "bfloat16"}


def row_hashes(keys: Any) -> tuple[Ints, Ints]:
    """64-bit content hash of each key of [B, H, K, D] (or quantised triple), [B, K]; which are all 0."""
    return hashes_of(row_words(keys))


def row_words(keys: Any) -> list[mx.array]:
    """The contents of keys as words, a key a row: [B, K, H, words] of each part. Nothing is evaluated."""
    parts = keys if isinstance(keys, tuple | list) else [keys]
    return [mx.contiguous(part.transpose(0, 2, 1, 3)).view(_WORDS[part.dtype.size]) for part in parts]


def hashes_of(words: list[mx.array]) -> tuple[Ints, Ints]:
    """As `row_hashes`, of what `row_words` made."""
    return content.hashes_of([np.array(part) for part in words])


def number_nans(keys: mx.array, first: int) -> tuple[mx.array, int]:
    """As `content.number_nans`, of keys [B, H, L, D] themselves."""
    if keys.dtype not in _NAMES:
        return keys, first
    words = np.array(mx.contiguous(keys).view(_WORDS[keys.dtype.size]))
    numbered, following = content.number_nans(words, _NAMES[keys.dtype], first)
    return (keys if numbered is None else mx.array(numbered).view(keys.dtype)), following
