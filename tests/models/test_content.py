"""Hashes of keys from words of any size."""

from __future__ import annotations

import numpy as np
import pytest

from mlxdiag.models.content import hashes_of, number_nans


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.uint32, np.uint64])
def test_every_word_counts_and_so_does_its_place(dtype: type) -> None:
    width = 12
    words = np.tile(np.arange(1, width + 1, dtype=dtype), (1, width + 2, 1))
    for i in range(width):
        words[0, i, i] ^= 1
    words[0, width] = words[0, width][::-1]
    hashes, zero = hashes_of([words])
    assert hashes.shape == (1, width + 2)
    assert len(set(hashes[0].tolist())) == width + 2
    assert not zero.any()


def test_heads_and_parts_belong_to_one_key() -> None:
    heads = np.arange(24, dtype=np.uint32).reshape(1, 2, 3, 4) + 1
    other = np.arange(4, dtype=np.uint8).reshape(1, 2, 2)
    both = hashes_of([heads, other])[0]
    assert both.shape == (1, 2)
    changed = other.copy()
    changed[0, 1, 1] += 1
    again = hashes_of([heads, changed])[0]
    assert again[0, 0] == both[0, 0]
    assert again[0, 1] != both[0, 1]


def test_zeros_are_known() -> None:
    words = np.zeros((2, 3, 2, 4), np.uint16)
    words[1, 2, 1, 3] = 1
    assert hashes_of([words])[1].tolist() == [[True] * 3, [True, True, False]]


def test_no_keys_at_all() -> None:
    hashes, zero = hashes_of([np.zeros((2, 0, 2, 4), np.uint32)])
    assert hashes.shape == zero.shape == (2, 0)


def test_numbers_of_nan_keys() -> None:
    keys = np.full((1, 2, 4, 8), np.nan, np.float32)
    keys[0, 1, 2, 5] = 0.0
    numbered, following = number_nans(keys.view(np.uint32), "float32", 7)
    assert following == 10
    assert numbered is not None
    assert np.array_equal(np.isnan(numbered.view(np.float32)), np.isnan(keys))
    assert len(set(hashes_of([numbered.transpose(0, 2, 1, 3)])[0][0].tolist())) == 4


def test_where_nothing_is_to_be_numbered() -> None:
    assert number_nans(np.zeros((1, 1, 2, 8), np.uint32), "float32", 3) == (None, 3)
    assert number_nans(np.full((1, 1, 2, 8), 0x7FC0, np.uint16), "int16", 3) == (None, 3)
    # Too narrow for a number of its own.
    assert number_nans(np.full((1, 1, 2, 1), 0x7FC00000, np.uint32), "float32", 3) == (None, 3)
