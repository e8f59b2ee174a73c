"""Values inside a forward of a real model, against what its own modules compute."""

from __future__ import annotations

import numpy as np

from mlxdiag.models import convert
from mlxdiag.models.inside import Spot
from mlxdiag.models.mlx import inside

IDS = np.arange(5, 17)[None]


def instance() -> object:
    pair = convert.tiny("gemma3_text")
    assert isinstance(pair, convert.Pair)
    return pair.mlx


def test_values_come_in_order_and_the_model_is_left_as_it_was() -> None:
    one = instance()
    before = one.backend.read(one.forward(IDS, None))
    with inside.values(one.model, lambda layer, part: layer == 1) as values:
        during = one.backend.read(one.forward(IDS, None))
    after = one.backend.read(one.forward(IDS, None))
    assert np.array_equal(before, during)
    assert np.array_equal(before, after)
    spots = [value.spot for value in values]
    order = [
        Spot(1, "", "in"),
        Spot(1, "input_layernorm", "out"),
        Spot(1, "self_attn.q_proj", "out"),
        Spot(1, "attention", "queries"),
        Spot(1, "attention", "out"),
        Spot(1, "self_attn.o_proj", "in"),
        Spot(1, "mlp", "out"),
        Spot(1, "", "out"),
    ]
    places = [spots.index(spot) for spot in order]
    assert places == sorted(places)
    assert len(values) == len(set(spots))
    with inside.values(one.model, lambda layer, part: layer == 1):
        pass
    assert len(values) == len(spots)


def test_attention_is_told_by_position_and_head() -> None:
    one = instance()
    with inside.values(one.model, lambda layer, part: layer == 0) as values:
        one.backend.read(one.forward(IDS, None))
    held = {value.spot: value.array for value in values}
    assert held[Spot(0, "attention", "queries")].shape == (1, 12, 4, 32)
    assert held[Spot(0, "attention", "keys")].shape == (1, 12, 2, 32)
    out = held[Spot(0, "attention", "out")]
    assert out.shape == (1, 12, 4, 32)
    assert np.allclose(out.reshape(1, 12, 128), held[Spot(0, "self_attn.o_proj", "in")])


def test_a_layers_result_is_the_next_ones_input() -> None:
    one = instance()
    with inside.values(one.model, lambda layer, part: layer is not None and part == "") as values:
        one.backend.read(one.forward(IDS, None))
    held = {value.spot: value.array for value in values}
    assert len(held) == 8
    for layer in range(3):
        assert np.array_equal(held[Spot(layer, "", "out")], held[Spot(layer + 1, "", "in")])
