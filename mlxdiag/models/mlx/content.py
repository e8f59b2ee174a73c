"""The content of keys as numbers: a hash for each key, and a way to tell keys apart that are not numbers."""

from __future__ import annotations

from typing import Any

import mlx.core as mx
import numpy as np

Ints = np.ndarray[Any, Any]

_WORDS = {1: mx.uint8, 2: mx.uint16, 4: mx.uint32}


def row_hashes(keys: Any) -> tuple[Ints, Ints]:
    """64-bit content hash of each key of [B, H, K, D] (or quantised triple), [B, K]; which are all 0."""
    return hashes_of(row_words(keys))


def row_words(keys: Any) -> list[mx.array]:
    """The contents of keys as words, a key a row: [B, K, H, words] of each part. Nothing is evaluated."""
    parts = keys if isinstance(keys, tuple | list) else [keys]
    return [mx.contiguous(part.transpose(0, 2, 1, 3)).view(_WORDS[part.dtype.size]) for part in parts]


def hashes_of(words: list[mx.array]) -> tuple[Ints, Ints]:
    """As `row_hashes`, of what `row_words` made."""
    rows = np.concatenate([_bytes(part) for part in words], axis=-1)
    batch, length, width = rows.shape
    if width % 8:
        rows = np.concatenate([rows, np.zeros((batch, length, -width % 8), np.uint8)], axis=-1)
    joined: Ints = np.ascontiguousarray(rows).view(np.uint64)
    return _mix(joined), np.logical_not(joined.any(axis=-1))


def _bytes(array: mx.array) -> Ints:
    words = np.array(array)
    return np.ascontiguousarray(words).reshape(*words.shape[:2], -1).view(np.uint8)


def _mix(words: Ints) -> Ints:
    """Words are mixed (the finaliser of splitmix64) with a salt of their place before they are added up."""
    salts = np.random.default_rng(0x6D6C78).integers(1, 2**63, words.shape[-1], dtype=np.uint64)
    mixed = _finalise(words ^ salts)
    return _finalise((mixed * (salts | np.uint64(1))).sum(axis=-1, dtype=np.uint64))


def _finalise(x: Ints) -> Ints:
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed: Ints = x ^ (x >> np.uint64(31))
    return mixed


# By dtype: infinity, a quiet NaN, and how many bits of its payload are free.
_NAN = {
    mx.float32: (0x7F800000, 0x7FC00000, 16),
    mx.float16: (0x7C00, 0x7E00, 8),
    mx.bfloat16: (0x7F80, 0x7FC0, 6),
}
_ID_BITS = 24


def number_nans(keys: mx.array, first: int) -> tuple[mx.array, int]:
    """Keys [B, H, L, D] in which those that are NaN throughout are still NaN, but with a payload of their
    own.

    Once a layer has given NaN, all keys of the next one are alike and nothing tells them apart. Payloads
    survive copying and change no result. Numbers count up from `first`; returns the next one too.
    """
    if keys.dtype not in _NAN:
        return keys, first
    infinity, quiet, bits = _NAN[keys.dtype]
    words = np.array(mx.contiguous(keys).view(_WORDS[keys.dtype.size]))
    without_sign = words & ((1 << (keys.dtype.size * 8 - 1)) - 1)
    lost = (without_sign > infinity).all(axis=(1, 3))
    count = int(lost.sum())
    digits = -(-_ID_BITS // bits)
    if not count or keys.shape[3] < digits:
        return keys, first
    rows, columns = np.nonzero(lost)
    numbers = np.arange(first, first + count)
    for digit in range(digits):
        words[rows, 0, columns, digit] = quiet | ((numbers >> (bits * digit)) & ((1 << bits) - 1))
    return mx.array(words).view(keys.dtype), first + count
