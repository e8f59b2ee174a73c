from __future__ import annotations

from typing import Any

import mlx.core as mx
import numpy as np
import pytest
from mlx.utils import tree_flatten

from mlxdiag.models import catalogue
from mlxdiag.models.mlx import zoo
from mlxdiag.models.mlx.families import ABSENT
from mlxdiag.models.mlx.instance import MlxInstance
from mlxdiag.models.mlx.tiny import build

HERE = set(catalogue.CATALOGUE) - set(ABSENT) - {"diffusion_gemma_text"}
"""Families that mlx-lm has code for."""


def _parameters(name: str) -> dict[str, Any]:
    instance = build(catalogue.config(name), window=8)
    assert isinstance(instance, MlxInstance)
    return dict(tree_flatten(instance.model.parameters()))


@pytest.mark.parametrize("name", sorted(HERE))
def test_no_parameter_of_several_entries_stays_constant(name: str) -> None:
    for path, value in _parameters(name).items():
        assert value.size == 1 or float(value.astype(mx.float32).std()) > 1e-3, path


def test_sinks_and_layer_scalars_leave_the_values_that_the_library_starts_them_at() -> None:
    sinks = [value for path, value in _parameters("gpt_oss").items() if path.endswith("sinks")]
    assert len(sinks) == 4
    assert all(float(mx.abs(value).max()) > 0.01 for value in sinks)
    scalars = [v.item() for path, v in _parameters("gemma4_text").items() if path.endswith("layer_scalar")]
    assert len(set(scalars)) == 8
    assert all(0.5 < scalar < 1.5 for scalar in scalars)


def test_a_recurrence_remembers_more_than_two_tokens() -> None:
    instance = build(catalogue.config("recurrent_gemma"), window=2)
    assert isinstance(instance, MlxInstance)
    tokens = np.arange(12)[None]
    changed = tokens.copy()
    changed[0, 0] = 4000
    one, other = (instance.forward(ids, instance.new_cache())[0, -1] for ids in (tokens, changed))
    assert float(mx.abs(one - other).max() / one.std()) > 1e-2


@pytest.mark.parametrize("name", sorted(HERE - {"gemma2"}))
def test_attention_is_sharp_and_yet_sees_many_keys(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    instance = build(catalogue.config(name))
    assert isinstance(instance, MlxInstance)
    spreads = []
    real = mx.fast.scaled_dot_product_attention

    def watch(q: Any, k: Any, v: Any, *, scale: float, **more: Any) -> Any:
        repeated = mx.repeat(k, q.shape[1] // k.shape[1], axis=1)
        spreads.append(float((q @ repeated.transpose(0, 1, 3, 2) * scale).std()))
        return real(q, k, v, scale=scale, **more)

    monkeypatch.setattr(mx.fast, "scaled_dot_product_attention", watch)
    instance.forward(np.random.default_rng(1).permutation(4096)[:64][None], instance.new_cache())
    assert spreads
    assert all(2.0 < spread < 8.0 for spread in spreads)


def test_packed_projections_are_drawn_wider_by_the_root_of_the_factor_and_separate_queries_by_all_of_it() -> (
    None
):
    packed = tiny("phi3")["model.layers.0.self_attn.qkv_proj.weight"]
    separate = tiny("olmo_hybrid")
    assert float(packed.std()) == pytest.approx(3**0.5 * packed.shape[1] ** -0.5, rel=0.03)
    plain = tiny("qwen2")
    queries, keys = (plain[f"model.layers.0.self_attn.{name}_proj.weight"] for name in "qk")
    assert float(queries.std() / keys.std()) == pytest.approx(3, rel=0.05)
    # Where queries are normalised afterwards, their projection cannot make scores sharper.
    normed = separate["model.layers.1.self_attn.q_proj.weight"]
    assert float(normed.std()) == pytest.approx(normed.shape[1] ** -0.5, rel=0.05)


def test_quantised_weights_are_random_bits() -> None:
    words = tiny("prism_hadamard_qwen35")["language_model.model.layers.1.self_attn.q_proj.weight"]
    assert words.dtype == mx.uint32
    bits = np.unpackbits(np.array(words).view(np.uint8))
    assert bits.mean() == pytest.approx(0.5, abs=0.02)


def tiny(family: str) -> dict[str, Any]:
    instance = zoo.tiny(family)
    assert isinstance(instance, MlxInstance)
    return dict(tree_flatten(instance.model.parameters()))
