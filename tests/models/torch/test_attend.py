"""Masks of numpy in the form that an attention implementation takes."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from mlxdiag.models.torch.attend import as_mask

QUERIES = torch.zeros(2, 4, 3, 8)


@pytest.mark.parametrize(
    ("shape", "expected"),
    [((3, 5), (1, 1, 3, 5)), ((2, 3, 5), (2, 1, 3, 5)), ((2, 4, 3, 5), (2, 4, 3, 5)), ((5,), (1, 1, 1, 5))],
)
def test_four_axes(shape: tuple[int, ...], expected: tuple[int, ...]) -> None:
    assert as_mask(np.ones(shape, bool), QUERIES, True).shape == expected


def test_boolean_where_it_is_understood() -> None:
    mask = np.array([[True, False]])
    assert as_mask(mask, QUERIES, True).dtype == torch.bool
    added = as_mask(mask, QUERIES.half(), False)
    assert added.dtype == torch.float16
    assert added[0, 0, 0].tolist() == [0.0, torch.finfo(torch.float16).min]


def test_floats_are_added_in_the_dtype_of_the_queries() -> None:
    mask = np.array([[0.5, -np.inf]])
    for boolean in (True, False):
        added = as_mask(mask, QUERIES.bfloat16(), boolean)
        assert added.dtype == torch.bfloat16
        assert added[0, 0, 0].tolist() == [0.5, -np.inf]


def test_what_is_no_numpy_array_passes() -> None:
    mask = torch.ones(3, 5)
    assert as_mask(mask, QUERIES, True) is mask
    assert as_mask(None, QUERIES, True) is None
