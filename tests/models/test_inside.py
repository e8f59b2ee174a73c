"""Names that two libraries have in common."""

import pytest

from mlxdiag.models.inside import Notes, Spot, place


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
