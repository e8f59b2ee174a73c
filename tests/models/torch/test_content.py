"""Keys of torch as numbers, the same ones that any other library's equal keys have."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from mlxdiag.models import content
from mlxdiag.models.torch.content import as_numpy, number_nans, row_hashes

FLOATS = [torch.float32, torch.float16, torch.bfloat16]


@pytest.mark.parametrize("dtype", FLOATS)
def test_keys_differ_when_one_number_differs(dtype: torch.dtype) -> None:
    rows = torch.linspace(-2, 2, 64).repeat(65, 1)
    for i in range(64):
        rows[i, i] += 0.25
    hashes, zero = row_hashes(rows.reshape(1, 1, 65, 64).to(dtype))
    assert len(set(hashes[0].tolist())) == 65
    assert not zero.any()


def test_all_heads_count() -> None:
    keys = torch.zeros(1, 2, 3, 4)
    keys[0, 1, 1, 3] = 1
    hashes, zero = row_hashes(keys)
    assert zero.tolist() == [[True, False, True]]
    assert hashes[0, 0] == hashes[0, 2] != hashes[0, 1]


def test_a_hash_depends_on_nothing_but_the_key() -> None:
    keys = torch.randn(2, 2, 5, 8)
    hashes, _ = row_hashes(keys)
    moved, _ = row_hashes(torch.roll(keys.flip(0), 2, dims=2))
    assert np.array_equal(moved, np.roll(hashes[::-1], 2, axis=1))
    strided = torch.cat([keys, keys], dim=-1)[..., :8]
    assert np.array_equal(row_hashes(strided)[0], hashes)


def test_equal_bytes_have_equal_hashes_in_any_library() -> None:
    keys = torch.randn(1, 2, 5, 8)
    words = np.ascontiguousarray(keys.numpy().transpose(0, 2, 1, 3)).view(np.uint32)
    assert np.array_equal(row_hashes(keys)[0], content.hashes_of([words])[0])


@pytest.mark.parametrize("dtype", FLOATS)
def test_nan_keys_stay_nan_and_become_distinct(dtype: torch.dtype) -> None:
    keys = torch.full((2, 2, 300, 8), torch.nan, dtype=dtype)
    numbered, following = number_nans(keys, 100)
    assert following == 700
    assert numbered.isnan().all()
    assert numbered.dtype == dtype
    moved = torch.cat([numbered[:, :, 7:], numbered[:, :, :7]], dim=2)
    assert len(set(row_hashes(moved)[0].ravel().tolist())) == 600


def test_other_keys_are_left_alone() -> None:
    keys = torch.ones(1, 2, 3, 8)
    assert number_nans(keys, 5) == (keys, 5)
    keys[0, :, 1] = torch.nan
    keys[0, 0, 2] = torch.nan
    numbered, following = number_nans(keys, 0)
    assert following == 1
    assert torch.equal(numbered.nan_to_num(7), keys.nan_to_num(7))


def test_arrays_for_numpy() -> None:
    assert as_numpy(torch.tensor([1.5], dtype=torch.bfloat16)).tolist() == [1.5]
    assert as_numpy(torch.tensor([True])).dtype == np.bool_
