"""A caller's masks reach the layers of every family in place of the library's own."""

from __future__ import annotations

from typing import Any

import mlx.core as mx
import mlx_lm.models.base as library_base
import mlx_lm.models.rope_utils as without_masks
import numpy as np
import pytest

from mlxdiag.errors import UsageError
from mlxdiag.models import catalogue
from mlxdiag.models.mlx import tiny
from mlxdiag.models.mlx.inject import USE_LIBRARY, caller_masks
from mlxdiag.models.mlx.instance import MlxInstance
from mlxdiag.models.mlx.probe import Event, Probe, StepEvent

FAMILIES = (
    "llama",
    "qwen3",
    "gemma2",
    "gemma3_text",
    "gemma3",
    "gemma3n",
    "gemma4_text",
    "gemma4",
    "gpt_oss",
    "mellum",
    "exaone4",
    "exaone_moe",
    "ministral3",
    "step3p5",
    "cohere2",
    "olmo3",
    "baichuan_m1",
    "recurrent_gemma",
)


@pytest.mark.parametrize("family", FAMILIES)
def test_each_layer_is_given_the_mask_of_its_kind(family: str) -> None:
    model = tiny.build(catalogue.config(family), window=8, positions=64)
    assert isinstance(model, MlxInstance), model
    cache = model.new_cache()
    asked: list[tuple[int | None, tuple[int, ...]]] = []

    def chooser(h: Any, one: Any, window: int | None, return_array: bool) -> Any:
        asked.append((window, model.layer_of(cache, one)))
        full = mx.tril(mx.ones((h.shape[1], h.shape[1]), dtype=mx.bool_))
        return full if window is None else full[None, None]

    told: list[Event] = []
    original = model.module.create_attention_mask
    with caller_masks(model.module, chooser), Probe(told.append) as probe:
        probe.watch(model.model)
        mx.eval(model.forward(np.arange(5)[None] + 3, cache))
    assert model.module.create_attention_mask is original
    step = told[-1]
    assert isinstance(step, StepEvent)
    shapes = {event.layer: event.mask for event in step.attention}
    enforced = {s.index for s in model.geometry.layers if s.attention == "sliding" and s.softmax == "fused"}
    for spec in model.geometry.layers:
        if spec.attention != "recurrent":
            assert shapes[spec.index] == ((1, 1, 5, 5) if spec.index in enforced else (5, 5))
    # The cache that is passed belongs to a layer of the kind that the mask is for.
    kinds = {s.index: s.attention for s in model.geometry.layers}
    assert all(kinds[layers[0]] == "sliding" for window, layers in asked if window is not None and enforced)


def test_the_library_builds_its_own_when_told_to() -> None:
    model = tiny.build(catalogue.config("gemma3_text"), window=8, positions=64)
    assert isinstance(model, MlxInstance)
    tokens = np.arange(12)[None] + 3
    plain = np.array(model.forward(tokens, model.new_cache()))
    with caller_masks(model.module, lambda *_: USE_LIBRARY):
        assert np.array_equal(plain, np.array(model.forward(tokens, model.new_cache())))


def test_the_original_is_back_after_an_error() -> None:
    import mlx_lm.models.llama as module

    original = module.create_attention_mask
    inside = []

    def fail() -> None:
        with caller_masks(module, lambda *_: None):
            inside.append(module.create_attention_mask)
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert inside != [original]
    assert module.create_attention_mask is original is library_base.create_attention_mask


def test_a_module_that_builds_no_mask_is_refused() -> None:
    with pytest.raises(UsageError, match="rope_utils"), caller_masks(without_masks, lambda *_: None):
        pass
