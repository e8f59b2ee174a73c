from __future__ import annotations

import re
from typing import Any

import pytest
import torch

from mlxdiag.models.adapter import Skipped
from mlxdiag.models.torch import library, tiny, zoo
from mlxdiag.models.torch.instance import TorchInstance
from mlxdiag.models.torch.zoo.build import tiny_config
from mlxdiag.models.torch.zoo.rows import row
from tests.models.torch.visibility import LENGTH, ids, moved_by_positions, visible

WINDOW = 8
SEEDS = (
    "gemma3_text",
    "gemma3n_text",
    "gemma4_text",
    "gpt_oss",
    "olmo3",
    "cohere2",
    "exaone4",
    "exaone_moe",
    "mellum",
    "ministral3",
    "step3p5",
    "recurrent_gemma",
    "diffusion_gemma_text",
    "gemma2",
)

FARTHER = {
    # Three convolutions of width 4, on the way into attention and inside, look three positions back each.
    "inkling_text": 9,
    "inkling2_text": 9,
    "inkling2_loop_text": 9,
    # Two convolutions of width 2.
    "zaya": 2,
}
"""Positions that a sliding layer sees beyond its window, by other means than attention."""

UNMASKED = ("moshi",)
"""The model builds a plain causal mask, though its config has a window and its caches drop what is outside
(modeling_moshi.py, create_causal_mask in MoshiModel.forward)."""

NEAR = {"lfm2": 3}
"""Families whose recurrent layers are convolutions of this width."""

PACED_OTHERWISE = {
    "gpt_neo": "learned embeddings, added before the first layer",
    "inkling_text": "a bias by distance, which takes no position ids",
    "inkling2_text": "a bias by distance, which takes no position ids",
    "inkling2_loop_text": "a bias by distance, which takes no position ids",
}
"""Families whose layers have positions and take none: why."""


def made(family: str, **more: Any) -> TorchInstance:
    instance = zoo.tiny(family, **more)
    assert isinstance(instance, TorchInstance), str(instance)
    return instance


def expected(family: str, layer: Any) -> set[int]:
    last = LENGTH - 1
    if layer.shares is not None:
        # Its keys were made by another layer, from another layer's input.
        return {last}
    if layer.attention == "sliding" and family not in UNMASKED:
        return set(range(last - WINDOW + 1 - FARTHER.get(family, 0), last + 1))
    if layer.attention == "chunked":
        return set(range(last // WINDOW * WINDOW, last + 1))
    if layer.attention == "recurrent" and family in NEAR:
        return set(range(last - NEAR[family] + 1, last + 1))
    return set(range(last + 1))


def with_sinks(instance: TorchInstance) -> set[int]:
    """Layers that hold a parameter by the name of a sink."""
    names = [name for name, _ in instance.model.named_parameters() if "sink" in name]
    return {int(re.findall(r"layers\.(\d+)\.", name)[0]) for name in names}


@pytest.mark.parametrize("family", zoo.families())
def test_every_layer_sees_exactly_what_its_geometry_says(family: str) -> None:
    instance = made(family)
    geometry = instance.geometry
    assert len(geometry.layers) >= 2
    assert all(
        layer.window == WINDOW for layer in geometry.layers if layer.attention in ("sliding", "chunked")
    )
    seen = visible(instance)
    for layer in geometry.layers:
        if layer.softmax == "opaque":
            assert seen[layer.index] <= set(range(LENGTH))
        else:
            assert seen[layer.index] == expected(family, layer), layer
    if instance._takes_positions:
        moved = moved_by_positions(instance)
        for layer in geometry.layers:
            if layer.attention != "recurrent":
                assert moved[layer.index] == (layer.positions and family not in PACED_OTHERWISE), layer
    assert {layer.index for layer in geometry.layers if layer.sinks} == with_sinks(instance)
    logits = instance.forward(ids(), None)
    assert bool(torch.isfinite(logits).all())
    assert logits.shape == (1, LENGTH, 512)


@pytest.mark.parametrize("family", SEEDS)
def test_a_window_that_is_off_by_one_or_ignored_shows(family: str) -> None:
    entry = row(family)
    classes = library.family(entry.model_type)
    assert not isinstance(classes, Skipped)
    config = tiny_config(family, classes)
    field = "attention_window_size" if family == "recurrent_gemma" else "sliding_window"
    tokens = ids(rows=4, length=40)
    right = made(family).forward(tokens, None)
    for window in (WINDOW - 1, WINDOW + 1, 4096):
        other = tiny.instance(classes, {**config, field: window}, name=family)
        assert isinstance(other, TorchInstance)
        wrong = other.forward(tokens, None)
        assert float((right - wrong).abs().max() / right.std()) > 0.15, window
        assert torch.equal(right[:, : WINDOW - 1], wrong[:, : WINDOW - 1])


@pytest.mark.parametrize("family", ["gemma3_text", "cohere2", "llama4_text", "qwen2"])
def test_both_implementations_of_attention_agree(family: str) -> None:
    eager, sdpa = made(family, attention="eager"), made(family, attention="sdpa")
    assert (eager.attention, sdpa.attention) == ("eager", "sdpa")
    one, other = eager.forward(ids(), None), sdpa.forward(ids(), None)
    assert float((one - other).abs().max() / one.std()) < 1e-4


@pytest.mark.parametrize("family", ["gpt_oss", "gemma2", "granite_swa"])
def test_families_whose_attention_the_fused_call_cannot_compute_run_eagerly(family: str) -> None:
    assert made(family).attention == "eager"


def test_what_a_family_refuses_is_a_value_with_a_reason() -> None:
    refused = zoo.tiny("gpt_oss", attention="sdpa")
    assert isinstance(refused, Skipped)
    assert "scaled_dot_product_attention" in refused.reason


def test_equal_seeds_give_equal_weights_and_others_do_not() -> None:
    one, same, other = (made("mistral", seed=seed).forward(ids(), None) for seed in (3, 3, 4))
    assert torch.equal(one, same)
    assert not torch.allclose(one, other)


def test_building_leaves_the_caller_s_random_numbers_as_they_were() -> None:
    torch.manual_seed(5)
    expected_next = torch.rand(3)
    torch.manual_seed(5)
    made("mistral")
    assert torch.equal(torch.rand(3), expected_next)


def test_layers_that_share_keys_name_the_layer_that_owns_them() -> None:
    for family in ("gemma3n_text+shared", "gemma4_text+shared"):
        shares = {
            layer.index: layer.shares for layer in made(family).geometry.layers if layer.shares is not None
        }
        # Layers 4 and 5 of S F S F S F share: the last sliding and the last full layer before them.
        assert shares == {4: 2, 5: 3}
        assert made(family).geometry.readers(2) == (2, 4)


@pytest.mark.parametrize("family", ["gemma4_text", "mistral", "inkling_text", "minimax"])
def test_every_choice_of_greedy_tokens_hangs_on_attention(family: str) -> None:
    """A tied or overwhelming embedding would answer each token with itself, whatever attention does."""
    tokens = torch.as_tensor(ids(rows=2, length=40))
    chosen = made(family).forward(tokens, None).argmax(-1)
    assert float((chosen == tokens).float().mean()) < 0.1
