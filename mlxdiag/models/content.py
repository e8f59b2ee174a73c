"""The content of keys as numbers: a hash for each key, and a way to tell keys apart that are not numbers.

Bits alone, whatever library they come from; its own part turns its arrays into words of their size.
"""

from __future__ import annotations

from typing import Any

import numpy as np

Ints = np.ndarray[Any, Any]


def hashes_of(words: list[Ints]) -> tuple[Ints, Ints]:
    """64-bit content hash of each key, [B, K], and which keys are all 0.

    `words` are unsigned integers [B, K, ...] with everything a key holds; several arrays are parts of the
    same keys.
    """
    rows = np.concatenate([_bytes(part) for part in words], axis=-1)
    batch, length, width = rows.shape
    if width % 8:
        rows = np.concatenate([rows, np.zeros((batch, length, -width % 8), np.uint8)], axis=-1)
    joined: Ints = np.ascontiguousarray(rows).view(np.uint64)
    return _mix(joined), np.logical_not(joined.any(axis=-1))


def _bytes(words: Ints) -> Ints:
    # The width is spelled out: where there are no keys, nothing else tells it.
    width = int(np.prod(words.shape[2:]))
    return np.ascontiguousarray(words).reshape(*words.shape[:2], width).view(np.uint8)


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
    "float32": (0x7F800000, 0x7FC00000, 16),
    "float16": (0x7C00, 0x7E00, 8),
    "bfloat16": (0x7F80, 0x7FC0, 6),
}
_ID_BITS = 24


def number_nans(words: Ints, dtype: str, first: int) -> tuple[Ints | None, int]:
    """Keys [B, H, L, D], as words of `dtype`, in which those that are NaN throughout are still NaN, but with
    a payload of their own; None where no key has to change.

    Once a layer has given NaN, all keys of the next one are alike and nothing tells them apart. Payloads
    survive copying and change no result. Numbers count up from `first`; returns the next one too.
    """
    if dtype not in _NAN:
        return None, first
    infinity, quiet, bits = _NAN[dtype]
    without_sign = words & ((1 << (words.dtype.itemsize * 8 - 1)) - 1)
    lost = (without_sign > infinity).all(axis=(1, 3))
    count = int(lost.sum())
    digits = -(-_ID_BITS // bits)
    if not count or words.shape[3] < digits:
        return None, first
    numbered = words.copy()
    rows, columns = np.nonzero(lost)
    numbers = np.arange(first, first + count)
    for digit in range(digits):
        numbered[rows, 0, columns, digit] = quiet | ((numbers >> (bits * digit)) & ((1 << bits) - 1))
    return numbered, first + count
