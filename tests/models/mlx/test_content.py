"""Contents of keys as numbers."""

from __future__ import annotations

import mlx.core as mx
import numpy as np
import pytest

from mlxdiag.models.mlx.content import number_nans, row_hashes

FLOATS = [mx.float32, mx.float16, mx.bfloat16]


@pytest.mark.parametrize("dtype", FLOATS)
def test_keys_differ_when_one_bit_differs(dtype: mx.Dtype) -> None:
    rows = np.tile(np.linspace(-2, 2, 64, dtype=np.float32), (65, 1))
    for i in range(64):
        rows[i, i] += 0.25
    hashes, zero = row_hashes(mx.array(rows.reshape(1, 1, 65, 64)).astype(dtype))
    assert len(set(hashes[0].tolist())) == 65
    assert not zero.any()


def test_all_heads_count() -> None:
    keys = np.zeros((1, 2, 3, 4), np.float32)
    keys[0, 1, 1, 3] = 1
    hashes, zero = row_hashes(mx.array(keys))
    assert zero.tolist() == [[True, False, True]]
    assert hashes[0, 0] == hashes[0, 2] != hashes[0, 1]


def test_a_hash_does_not_depend_on_row_or_slot() -> None:
    keys = mx.random.normal((2, 2, 5, 8))
    hashes, _ = row_hashes(keys)
    moved, _ = row_hashes(mx.roll(keys[::-1], 2, axis=2))
    assert np.array_equal(moved, np.roll(hashes[::-1], 2, axis=1))


def test_swapped_words_are_another_key() -> None:
    keys = np.arange(1, 9, dtype=np.float32).reshape(1, 1, 1, 8)
    assert row_hashes(mx.array(keys))[0] != row_hashes(mx.array(keys[..., ::-1].copy()))[0]


def test_quantised_triples_have_a_content_too() -> None:
    keys = mx.random.normal((1, 2, 6, 64))
    hashes, _ = row_hashes(mx.quantize(keys, group_size=32, bits=4))
    assert hashes.shape == (1, 6)
    assert len(set(hashes[0].tolist())) == 6


@pytest.mark.parametrize("dtype", FLOATS)
def test_nan_keys_stay_nan_and_become_distinct(dtype: mx.Dtype) -> None:
    keys = mx.full((2, 2, 300, 8), mx.nan).astype(dtype)
    numbered, following = number_nans(keys, 100)
    assert following == 700
    assert mx.isnan(numbered).all().item()
    assert numbered.dtype == dtype
    cache = mx.zeros((2, 2, 300, 8), dtype)
    cache[...] = numbered
    moved = mx.concatenate([cache[:, :, 7:], cache[:, :, :7]], axis=2)
    assert len(set(row_hashes(moved)[0].ravel().tolist())) == 600


def test_other_keys_are_left_alone() -> None:
    keys = np.ones((1, 2, 3, 8), np.float32)
    keys[0, :, 1] = np.nan
    keys[0, 0, 2] = np.nan
    numbered, following = number_nans(mx.array(keys), 0)
    assert following == 1
    assert np.array_equal(np.array(numbered), keys, equal_nan=True)
    whole = mx.ones((1, 2, 3, 8))
    assert number_nans(whole, 5) == (whole, 5)
