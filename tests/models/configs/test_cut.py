from __future__ import annotations

import pytest

from mlxdiag.models import catalogue
from mlxdiag.models.adapter import Geometry, LayerSpec
from mlxdiag.models.configs.cut import cut, kept_layers
from mlxdiag.models.configs.geometry import from_config, text_of


def _geometry(letters: str) -> Geometry:
    kinds = {"L": "sliding", "G": "full"}
    layers = tuple(
        LayerSpec(index=index, family=kinds[letter], attention=kinds[letter])
        for index, letter in enumerate(letters)
    )
    return Geometry(architecture="made_up", layers=layers, depth=len(letters))


@pytest.mark.parametrize(
    ("letters", "kept"),
    [
        ("GGGGGGGG", 2),
        ("LGLGLGLG", 4),
        ("LLLGLLLGLLLG", 4),
        ("LLLGLLLGLL", 4),
        ("GLLLGLLLGLLL", 4),
        ("LLGLLGLLG", 6),
        ("LLLLGLLLL", 5),
        ("GLLLLLLLLL", 3),
        ("G", 1),
    ],
)
def test_whole_periods_of_at_least_four_layers_are_kept(letters: str, kept: int) -> None:
    assert kept_layers(_geometry(letters)) == tuple(range(kept))


def test_one_period_that_keeps_keys_and_one_layer_of_each_kind_that_shares_them() -> None:
    assert kept_layers(from_config(catalogue.config("gemma4_text"))) == (*range(6), 24, 29)
    assert kept_layers(from_config(catalogue.config("gemma3n"))) == (*range(5), 20, 24)


def _small(name: str, **more: int | None) -> dict[str, object]:
    config = catalogue.config(name)
    geometry = from_config(config)
    window = more.pop("window", None)
    return cut(text_of(config), geometry, kept_layers(geometry), 5000, window, more)


def test_widths_depth_and_vocabulary_are_cut_and_the_window_is_not() -> None:
    small = _small("gemma4_text")
    assert (small["num_hidden_layers"], small["num_kv_shared_layers"]) == (8, 2)
    assert (small["num_attention_heads"], small["num_key_value_heads"], small["head_dim"]) == (4, 2, 32)
    assert (small["vocab_size"], small["vocab_size_per_layer_input"]) == (5000, 5000)
    assert small["sliding_window"] == 512
    assert small["final_logit_softcapping"] == 30.0
    assert from_config(small).families()["sliding"].shares == 1


def test_lists_with_an_entry_per_layer_follow_the_kept_layers() -> None:
    small = _small("gemma3n")
    assert small["layer_types"] == ["sliding_attention"] * 4 + [
        "full_attention",
        "sliding_attention",
        "full_attention",
    ]
    assert small["activation_sparsity_pattern"] == [0.95] * 5 + [0.0] * 2
    assert small["intermediate_size"] == [128] * 7


def test_layer_indexes_are_renumbered_in_lists_and_in_strings() -> None:
    assert _small("baichuan_m1")["sliding_window_layers"] == [1, 3]
    assert _small("step3p5")["moe_layers_enum"] == "3"


def test_nested_settings_are_cut_and_rope_settings_are_not() -> None:
    small = _small("step3p5")
    assert small["attention_other_setting"]["num_attention_heads"] == 4  # type: ignore[index]
    rope = _small("mellum")["rope_parameters"]
    assert rope == catalogue.config("mellum")["rope_parameters"]


def test_a_default_of_the_library_is_cut_where_the_config_is_silent() -> None:
    small = _small("gemma3_text", global_head_dim=512, num_global_key_value_heads=None)
    assert small["global_head_dim"] == 32
    assert "num_global_key_value_heads" not in small


def test_a_field_that_the_library_insists_on_is_taken_from_the_rope_settings_or_from_the_default() -> None:
    config = catalogue.config("llama")
    del config["rope_theta"]
    geometry = from_config(config)
    required = {"rope_theta": ..., "mlp_bias": ..., "model_type": ...}
    assert cut(config, geometry, (0, 1), 5000, None, required)["rope_theta"] == 10000.0
    config["rope_parameters"] = {"rope_theta": 7.0}
    small = cut(config, geometry, (0, 1), 5000, None, required)
    assert (small["rope_theta"], small["mlp_bias"]) == (7.0, False)


def test_another_window_replaces_the_one_that_the_family_has() -> None:
    assert _small("recurrent_gemma", window=16)["attention_window_size"] == 16
    qwen = _small("qwen3", window=16)
    assert qwen["sliding_window"] is None
