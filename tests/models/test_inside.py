"""Names that two libraries have in common, and the values under them, by what each one's modules compute."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import pytest

from mlxdiag.models import convert
from mlxdiag.models.inside import Notes, Spot, place

IDS = np.arange(5, 17)[None]
LIBRARIES = pytest.mark.parametrize("library", ["mlx", "torch"])


def running(library: str) -> tuple[Any, Any]:
    """A real model in this library, and the module that reads values inside of it."""
    pair = convert.tiny("gemma3_text")
    assert isinstance(pair, convert.Pair)
    return getattr(pair, library), importlib.import_module(f"mlxdiag.models.{library}.inside")


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("model.layers.3.self_attn.q_proj", (3, "self_attn.q_proj")),
        ("language_model.model.layers.3.self_attn.q_proj", (3, "self_attn.q_proj")),
        ("transformer.h.0.attn.c_attn", (0, "attn.c_attn")),
        ("model.layers.11", (11, "")),
        ("model.layers.2.mlp.experts.5.up_proj", (2, "mlp.experts.5.up_proj")),
        ("model.embed_tokens", (None, "embed_tokens")),
        ("lm_head", (None, "lm_head")),
    ],
)
def test_layer_and_part_of_a_module(name: str, found: tuple[int | None, str]) -> None:
    assert place(name) == found


def test_a_part_that_is_called_twice_has_two_values() -> None:
    notes = Notes(lambda layer, part: True)
    notes.note(0, "mlp", "out", "first")
    notes.note(0, "mlp", "out", "second")
    notes.note(0, "mlp", "in", None)
    assert notes.held == [(Spot(0, "mlp", "out", 0), "first"), (Spot(0, "mlp", "out", 1), "second")]


def test_attention_outside_of_a_wanted_layer_is_nobodys() -> None:
    notes = Notes(lambda layer, part: layer == 1)
    assert notes.attention("q", "k", "v") is None
    notes.running.append(0)
    assert notes.attention("q", "k", "v") is None
    notes.running.append(1)
    assert notes.attention("q", "k", "v") == 1
    assert [spot.end for spot, _ in notes.held] == ["queries", "keys", "values"]


@LIBRARIES
def test_values_come_in_order_and_the_model_is_left_as_it_was(library: str) -> None:
    one, inside = running(library)
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


@LIBRARIES
def test_attention_is_told_by_position_and_head(library: str) -> None:
    one, inside = running(library)
    with inside.values(one.model, lambda layer, part: layer == 0) as values:
        one.backend.read(one.forward(IDS, None))
    held = {value.spot: value.array for value in values}
    assert held[Spot(0, "attention", "queries")].shape == (1, 12, 4, 32)
    assert held[Spot(0, "attention", "keys")].shape == (1, 12, 2, 32)
    out = held[Spot(0, "attention", "out")]
    assert out.shape == (1, 12, 4, 32)
    assert np.allclose(out.reshape(1, 12, 128), held[Spot(0, "self_attn.o_proj", "in")])


def test_a_value_that_the_model_changes_in_place_is_told_as_it_was() -> None:
    """mlx-lm scales embeddings by `h *= scale`, which puts another value into the array that it holds."""
    one, inside = running("mlx")
    with inside.values(one.model, lambda layer, part: part == "embed_tokens") as values:
        one.backend.read(one.forward(IDS, None))
    held = {value.spot: value.array for value in values}
    weight = np.array(one.model.model.embed_tokens.weight)
    assert np.array_equal(held[Spot(None, "embed_tokens", "out")], weight[IDS])


@LIBRARIES
def test_a_layers_result_is_the_next_ones_input(library: str) -> None:
    one, inside = running(library)
    with inside.values(one.model, lambda layer, part: layer is not None and part == "") as values:
        one.backend.read(one.forward(IDS, None))
    held = {value.spot: value.array for value in values}
    assert len(held) == 8
    for layer in range(3):
        assert np.array_equal(held[Spot(layer, "", "out")], held[Spot(layer + 1, "", "in")])
