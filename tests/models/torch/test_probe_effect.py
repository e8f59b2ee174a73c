"""What becomes of a call without a mask, against what torch really computes."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from transformers.integrations.sdpa_attention import sdpa_attention_forward

from mlxdiag.models.torch.identity import visible_keys
from mlxdiag.models.torch.probe_effect import CAUSAL, OLDEST, OPAQUE, WINDOWED, effect_of
from mlxdiag.models.torch.probe_functions import ADDED, FLASH, FOREIGN, SDPA

MODULE = SimpleNamespace(is_causal=True, num_key_value_groups=1)


def attended(q: int, k: int, mask: Any = None, module: Any = MODULE, **kwargs: Any) -> list[list[int]]:
    """Keys whose values reach each query: value j is the j-th unit vector, and no weight is 0."""
    torch.manual_seed(0)
    query, key = torch.randn(1, 1, q, 4), torch.randn(1, 1, k, 4)
    out, _ = sdpa_attention_forward(module, query, key, torch.eye(k)[None, None], mask, **kwargs)
    return [torch.nonzero(row).flatten().tolist() for row in out[0, :, 0]]


def told(q: int, k: int, mask: Any = None, module: Any = MODULE, **kwargs: Any) -> list[list[int]]:
    seen = visible_keys(effect_of(SDPA, module, q, k, mask, kwargs), 1, q, k)
    assert seen is not None
    return [[int(j) for j in row.nonzero()[0]] for row in seen[0]]


@pytest.mark.parametrize(("q", "k"), [(1, 1), (1, 5), (4, 4), (3, 7), (2, 9)])
@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("by", ["module", "argument"])
def test_sdpa_without_a_mask(q: int, k: int, causal: bool, by: str) -> None:
    module = SimpleNamespace(is_causal=causal if by == "module" else not causal, num_key_value_groups=1)
    kwargs = {} if by == "module" else {"is_causal": causal}
    assert told(q, k, module=module, **kwargs) == attended(q, k, module=module, **kwargs)


def test_sdpa_with_a_mask() -> None:
    mask = torch.tensor([[True, False, True], [False, True, True]])[None, None]
    assert told(2, 3, mask) == attended(2, 3, mask) == [[0, 2], [1, 2]]
    bias = torch.where(mask, 0.0, -torch.inf)
    assert told(2, 3, bias) == attended(2, 3, bias)


def test_names_of_what_holds() -> None:
    assert effect_of(SDPA, MODULE, 3, 7, None, {}).rule == OLDEST
    assert effect_of(SDPA, MODULE, 3, 3, None, {}).rule == CAUSAL
    assert effect_of(ADDED, MODULE, 3, 7, None, {}).rule is None
    assert effect_of(FLASH, MODULE, 3, 7, None, {}).rule == CAUSAL
    assert effect_of(FLASH, MODULE, 3, 7, None, {"sliding_window": 4}).rule == WINDOWED


def test_what_a_kernel_does_by_itself_is_not_claimed_to_be_seen() -> None:
    effect = effect_of(FLASH, MODULE, 3, 7, None, {"sliding_window": 4})
    assert visible_keys(effect, 1, 3, 7) is None
    assert visible_keys(effect_of(FLASH, MODULE, 3, 7, torch.ones(1, 7), {}), 1, 3, 7) is None


@pytest.mark.parametrize("mask", [None, torch.ones(1, 1, 3, 7, dtype=torch.bool)])
def test_of_a_foreign_function_nothing_is_claimed(mask: Any) -> None:
    effect = effect_of(FOREIGN, MODULE, 3, 7, mask, {"sliding_window": 4})
    assert effect.rule == OPAQUE
    assert visible_keys(effect, 1, 3, 7) is None
