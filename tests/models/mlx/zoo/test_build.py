"""Tiny instances: they run, nothing is hidden in them, and their geometry is what their config means.

A sample of families; `MLXDIAG_WHOLE_ZOO=1` runs them all (half a minute).
"""

from __future__ import annotations

import copy
import functools
import os
from functools import cache
from importlib.util import find_spec
from typing import Any

import mlx.core as mx
import numpy as np
import pytest
from mlx.utils import tree_flatten
from transformers import AutoConfig

from mlxdiag.models.adapter import Skipped
from mlxdiag.models.mlx import tiny as tiny_models
from mlxdiag.models.mlx.instance import MlxInstance
from mlxdiag.models.mlx.probe import Event, Probe, StepEvent
from mlxdiag.models.mlx.zoo import families, tiny
from mlxdiag.models.mlx.zoo.build import tiny_config

SAMPLE = (
    "afm7",
    "baichuan_m1",
    "deepseek_v3",
    "falcon_h1",
    "gemma3n",
    "iquestloopcoder",
    "llama4",
    "longcat_flash_ngram",
    "mistral",
    "nemotron_h",
    "plamo",
    "qwen3_5_moe",
    "rwkv7",
)
"""One of each way to keep, share or forget keys."""
FAMILIES = families() if os.environ.get("MLXDIAG_WHOLE_ZOO") else SAMPLE
METAL = {"bitnet", "muse_spark"}
SEES_AHEAD = {"phi3small"}
"""mlx-lm 0.32 adds a boolean mask to the scores of its block-sparse layers, which hides nothing."""
LENGTH, CHANGED = 24, 18
VISIBLE = 1e-2
"""Of the logits' standard deviation: what a fault must move them by to be told from rounding."""
WORDS = {
    "full_attention": "full",
    "sliding_attention": "sliding",
    "chunked_attention": "chunked",
    "linear_attention": "recurrent",
    "recurrent": "recurrent",
    "attention": "full",
    "mamba": "recurrent",
    "conv": "recurrent",
}
MEANT = {
    "afmoe": "sliding_window",
    "gemma2": "sliding_window",
    "gemma3_text": "sliding_window",
    "gpt_oss": "sliding_window",
    "granitemoehybrid": "",
    "jamba": "",
    "laguna": "sliding_window",
    "lfm2_moe": "",
    "llama4": "attention_chunk_size",
    "mellum": "sliding_window",
    "ministral3": "sliding_window",
    "muse_glimmer": "sliding_window",
    "olmo_hybrid": "",
    "qwen3_next": "",
    "step3p5": "sliding_window",
}
"""Families whose layer kinds transformers can be asked for, and the field of their window."""


@cache
def instance(family: str, seed: int = 0) -> MlxInstance:
    built = tiny(family, seed)
    assert isinstance(built, MlxInstance), built
    return built


def runnable(family: str) -> MlxInstance:
    if family in METAL and not mx.metal.is_available():
        pytest.skip("needs Metal")
    return instance(family)


def prompt(vocab: int) -> Any:
    return np.random.default_rng(0).permutation(vocab)[:LENGTH][None]


def logits(model: MlxInstance, ids: Any) -> Any:
    return np.array(model.forward(ids, model.new_cache()).astype(mx.float32))[0]


@pytest.mark.parametrize("family", FAMILIES)
def test_a_token_changes_what_follows_and_nothing_before(family: str) -> None:
    model = runnable(family)
    ids = prompt(model.vocab)
    before = logits(model, ids)
    assert np.isfinite(before).all()
    ids[0, CHANGED] = (ids[0, CHANGED] + 7) % model.vocab
    moved = np.abs(logits(model, ids) - before).max(axis=-1) / before.std()
    seen = moved[CHANGED + 1 :] > VISIBLE
    # An indexer may pass a key over for one query or another.
    assert seen.any() if any(layer.softmax == "opaque" for layer in model.geometry.layers) else seen.all()
    assert (moved[:CHANGED] < 1e-4).all() or family in SEES_AHEAD


@pytest.mark.parametrize("family", FAMILIES)
def test_the_probe_sees_every_attending_layer_and_no_other(family: str) -> None:
    model = runnable(family)
    told: list[Event] = []
    with Probe(told.append) as probe:
        probe.watch(model.model, model.geometry)
        model.forward(prompt(model.vocab), model.new_cache())
    (step,) = [event for event in told if isinstance(event, StepEvent)]
    kinds = {layer.index: layer for layer in model.geometry.layers if layer.attention != "recurrent"}
    seen = {event.layer for event in step.attention}
    assert {index for index, layer in kinds.items() if layer.softmax == "fused"} <= seen
    assert seen - {None} <= set(kinds)


@pytest.mark.parametrize("family", FAMILIES)
def test_every_cache_is_read_by_a_layer(family: str) -> None:
    model = runnable(family)
    read = {index for place in range(model.cache_count) for index in model.cache_layers(place)}
    assert read == {layer.index for layer in model.geometry.layers}
    assert len(model.model.layers) == model.geometry.depth


@pytest.mark.parametrize("family", MEANT)
def test_layer_kinds_are_what_transformers_reads_from_the_same_config(family: str) -> None:
    config = tiny_config(family)
    assert isinstance(config, dict)
    text = config.get("text_config", config)
    fields = {name: value for name, value in text.items() if name != "model_type"}
    meant = AutoConfig.for_model(text["model_type"], **fields)
    kinds = getattr(meant, "layer_types", None) or meant.layers_block_type
    layers = instance(family).geometry.layers
    assert [layer.attention for layer in layers] == [WORDS[kind] for kind in kinds]
    windows = {layer.window for layer in layers} - {None}
    assert windows == ({getattr(meant, MEANT[family])} if MEANT[family] else set())


@pytest.mark.parametrize(
    ("family", "field", "without", "first"),
    [
        ("deepseek_v32", "index_topk", 2048, 6),
        ("glm_moe_dsa", "index_topk", 2048, 6),
        # Blocks of four keys, of which two are picked.
        ("minimax_m3_vl", "index_topk_blocks", 16, 2 * 4),
        # Four tokens make a key, of which three are picked, from two blocks of two.
        ("deepseek_v41", "index_topk", 512, 4 * 4 - 1),
        ("deepseek_v41", "candidate_topk_blocks", 2048, 4 * 5 - 1),
        # log(1 + floor((position + 1) / 4)), and log(1 + floor(position / 8))
        ("llama4", "attn_temperature_tuning", 0, 4 - 1),
        ("mistral3", "rope_parameters.llama_4_scaling_beta", 0.0, 8),
        ("mistral4", "rope_parameters.llama_4_scaling_beta", 0.0, 8),
    ],
)
def test_what_sets_in_with_length_sets_in_within_a_schedule(
    family: str, field: str, without: float, first: int
) -> None:
    config = tiny_config(family)
    assert isinstance(config, dict)
    other = copy.deepcopy(config)
    *path, name = field.split(".")
    held = functools.reduce(lambda part, key: part[key], path, other.get("text_config", other))
    assert held.get(name) != without
    held[name] = without
    plain = tiny_models.instance(other, name=family)
    assert isinstance(plain, MlxInstance)
    ids = prompt(plain.vocab)
    moved = np.abs(logits(instance(family), ids) - logits(plain, ids)).max(axis=-1)
    assert np.flatnonzero(moved > VISIBLE * 0.1)[0] == first


def test_every_row_can_be_built_but_those_of_metal_kernels() -> None:
    """A field that nobody knows would leave a family out of every audit."""
    skipped = {family for family in families() if isinstance(tiny_config(family), Skipped)}
    package = set() if find_spec("hf_olmo") else {"olmo"}
    assert skipped == package | (set() if mx.metal.is_available() else METAL)


def test_equal_seeds_give_equal_weights_and_others_do_not() -> None:
    weights = [tree_flatten(tiny("qwen3", seed).model.parameters()) for seed in (3, 3, 4)]  # type: ignore[union-attr]
    pairs = [zip(one, weights[0], strict=True) for one in weights[1:]]
    same, other = ([bool(mx.array_equal(a[1], b[1])) for a, b in pair] for pair in pairs)
    assert all(same)
    assert not any(other)


@pytest.mark.parametrize("family", ["diffusion_gemma", "baichuan"])
def test_a_family_that_people_ask_for_in_vain_has_a_hint(family: str) -> None:
    found = tiny(family)
    assert isinstance(found, Skipped)
    assert found.hint


@pytest.mark.skipif(mx.metal.is_available(), reason="Metal is here")
@pytest.mark.parametrize("family", sorted(METAL))
def test_a_family_of_metal_kernels_is_skipped_elsewhere(family: str) -> None:
    found = tiny(family)
    assert isinstance(found, Skipped)
    assert "Metal" in found.reason


def test_no_family_is_a_module_that_defines_no_model() -> None:
    assert isinstance(tiny("switch_layers"), Skipped)
