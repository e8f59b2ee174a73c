"""The geometry against transformers' configuration classes, which define what a public config.json means."""

from __future__ import annotations

from typing import Any

import pytest
from transformers import AutoConfig

from mlxdiag.errors import UnreadableError
from mlxdiag.models import catalogue
from mlxdiag.models.configs.geometry import from_config
from mlxdiag.traces.types import Tokens

WORDS = {
    "sliding": "sliding_attention",
    "full": "full_attention",
    "chunked": "chunked_attention",
    "recurrent": "linear_attention",
}
KNOWN_TO_TRANSFORMERS = sorted(set(catalogue.CATALOGUE) - {"llama", "baichuan_m1", "step3p5"})
SILENT = [
    "qwen3",
    "gemma2",
    "gemma3_text",
    "gemma3n_text",
    "gemma4_text",
    "gpt_oss",
    "mellum",
    "exaone4",
    "exaone_moe",
    "cohere2",
    "olmo3",
    "recurrent_gemma",
    "afmoe",
    "llama4_text",
]


def _agree(config: dict[str, Any]) -> None:
    fields = {name: value for name, value in config.items() if name != "model_type"}
    meant = AutoConfig.for_model(config["model_type"], **fields).get_text_config()
    geometry = from_config(config)
    assert [WORDS[layer.attention] for layer in geometry.layers] == meant.layer_types
    for kind, field in (("sliding", "sliding_window"), ("chunked", "attention_chunk_size")):
        for layer in geometry.layers:
            assert layer.attention != kind or layer.window == getattr(meant, field)
    shared = getattr(meant, "num_kv_shared_layers", 0)
    assert [layer.index for layer in geometry.layers if layer.shares is not None] == list(
        range(geometry.depth - shared, geometry.depth)
    )


@pytest.mark.parametrize("name", KNOWN_TO_TRANSFORMERS)
def test_real_configs_mean_what_transformers_reads(name: str) -> None:
    _agree(catalogue.config(name))


@pytest.mark.parametrize("name", SILENT)
def test_a_silent_config_means_what_transformers_assumes(name: str) -> None:
    _agree({"model_type": name})


@pytest.mark.parametrize(
    "fields",
    [
        {"sliding_window": 64, "use_sliding_window": True, "max_window_layers": 3, "num_hidden_layers": 8},
        {"sliding_window": 64, "use_sliding_window": False, "max_window_layers": 3, "num_hidden_layers": 8},
    ],
)
def test_qwen_has_a_window_only_when_switched_on_and_only_in_the_upper_layers(fields: dict[str, Any]) -> None:
    _agree({"model_type": "qwen3", **fields})


def test_the_last_layer_of_gemma4_is_full_whatever_is_listed() -> None:
    _agree({"model_type": "gemma4_text", "layer_types": ["sliding_attention"] * 4, "num_hidden_layers": 4})


def test_a_null_window_makes_a_pattern_full() -> None:
    # EXAONE 4.0 1.2B: the pattern is there, the window is null.
    for pattern in ("LLLG", 4, None):
        config = {"model_type": "exaone4", "sliding_window": None, "sliding_window_pattern": pattern}
        layers = from_config({**config, "num_hidden_layers": 8}).layers
        assert {layer.attention for layer in layers} == {"full"}


@pytest.mark.parametrize("model_type", ["mistral", "ministral3", "mixtral", "phi3", "starcoder2"])
def test_families_with_one_window_have_it_on_every_layer(model_type: str) -> None:
    windowed = from_config({"model_type": model_type, "num_hidden_layers": 3, "sliding_window": 64})
    assert [layer.window for layer in windowed.layers] == [64, 64, 64]
    plain = from_config({"model_type": model_type, "num_hidden_layers": 3, "sliding_window": None})
    assert {layer.attention for layer in plain.layers} == {"full"}


def test_a_window_of_0_is_none_and_a_listed_pattern_gives_the_depth() -> None:
    plain = from_config({"model_type": "mistral", "num_hidden_layers": 2, "sliding_window": 0})
    assert {layer.attention for layer in plain.layers} == {"full"}
    assert from_config({"model_type": "nemotron_h", "hybrid_override_pattern": "M*-"}).depth == 3


def test_layers_that_share_keys_borrow_from_the_last_owner_of_their_kind() -> None:
    layers = from_config(catalogue.config("gemma4_text")).layers
    assert layers[23].shares is None
    assert (layers[24].attention, layers[24].shares) == ("sliding", 22)
    assert (layers[29].attention, layers[29].shares) == ("full", 23)


def test_baichuan_lists_its_sliding_layers_by_index() -> None:
    layers = from_config(catalogue.config("baichuan_m1")).layers
    assert [layer.index for layer in layers if layer.attention == "sliding"] == list(range(1, 40, 2))


def test_a_pattern_string_and_a_pattern_number_say_the_same() -> None:
    common = {"model_type": "exaone4", "num_hidden_layers": 8, "sliding_window": 16}
    text = from_config({**common, "sliding_window_pattern": "LLLG"})
    number = from_config({**common, "sliding_window_pattern": 4})
    assert text.layers == number.layers
    assert [layer.attention[0] for layer in text.layers] == list("sssfsssf")


@pytest.mark.parametrize("name", ["cohere2", "exaone4", "exaone_moe"])
def test_full_layers_of_these_families_have_no_positions(name: str) -> None:
    layers = from_config(catalogue.config(name)).layers
    assert {layer.attention for layer in layers if not layer.positions} == {"full"}
    assert all(layer.positions for layer in layers if layer.attention == "sliding")


def test_hybrid_layers_without_token_mixing_are_left_out() -> None:
    geometry = from_config(
        {"model_type": "nemotron_h", "num_hidden_layers": 5, "hybrid_override_pattern": "M-*EM"}
    )
    assert [(layer.index, layer.attention) for layer in geometry.layers] == [
        (0, "recurrent"),
        (2, "full"),
        (4, "recurrent"),
    ]
    assert geometry.depth == 5


def test_gpt_oss_has_sinks_and_gemma2_a_softmax_by_hand() -> None:
    assert {layer.sinks for layer in from_config(catalogue.config("gpt_oss")).layers} == {True}
    assert {layer.softmax for layer in from_config(catalogue.config("gemma2")).layers} == {"manual"}


def test_special_ids_of_the_outer_config_win() -> None:
    config = {**catalogue.config("gemma4"), "eos_token_id": [1, 106, 50]}
    assert from_config(config).tokens == Tokens(pad=0, eos=[1, 106, 50], reserved=[(258014, 258032)])
    assert from_config({"model_type": "llama", "num_hidden_layers": 1}).tokens is None


def test_where_the_library_reads_a_config_otherwise_it_is_noted() -> None:
    assert any("one causal mask" in note for note in from_config(catalogue.config("gemma2")).notes)
    for name in ("gpt_oss", "gemma4_text", "gemma3_text", "cohere2"):
        assert from_config(catalogue.config(name)).notes == ()
    silent = from_config({"model_type": "gemma4_text"})
    assert any("the E2B model" in note for note in silent.notes)
    assert any("the family's pattern LLLLLG is assumed" in note for note in silent.notes)
    listed = {"model_type": "cohere2", "num_hidden_layers": 1, "layer_types": ["sliding_attention"]}
    assert from_config(listed).notes == ("mlx-lm 0.32 reads sliding_window_pattern and ignores layer_types",)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ([], "must be a JSON object, not list"),
        ({"model_type": "llama", "text_config": 3}, "text_config must be an object"),
        ({"model_type": "unheard_of"}, "num_hidden_layers is None"),
        ({"model_type": "llama", "num_hidden_layers": 0}, "num_hidden_layers is 0"),
        ({"model_type": "llama", "num_hidden_layers": "4"}, "num_hidden_layers must be an integer, not '4'"),
        ({"model_type": "gpt_oss", "sliding_window": -1}, "sliding_window must be positive, not -1"),
        ({"model_type": "gpt_oss", "layer_types": ["full_attention"]}, "layer_types names 1 layers of 36"),
        ({"model_type": "gpt_oss", "layer_types": ["odd"] * 36}, "unknown kind of layer, 'odd'"),
        ({"model_type": "gpt_oss", "layer_types": "LG"}, "layer_types must be a list of strings"),
        ({"model_type": "exaone4", "sliding_window_pattern": "LXG"}, "must be a number or letters L and G"),
        ({"model_type": "gemma4_text", "num_kv_shared_layers": 30}, "num_kv_shared_layers is 30 of 30"),
        (
            {"model_type": "gemma4_text", "num_hidden_layers": 6, "num_kv_shared_layers": 4},
            "layer 5 shares keys, but no layer of its kind keeps any",
        ),
        (
            {"model_type": "baichuan_m1", "num_hidden_layers": 2, "sliding_window_layers": [2]},
            "must list layer indexes below 2",
        ),
        (
            {"model_type": "nemotron_h", "num_hidden_layers": 2, "hybrid_override_pattern": "MX"},
            "hybrid_override_pattern holds",
        ),
    ],
)
def test_a_config_that_contradicts_itself_names_the_field(config: Any, message: str) -> None:
    with pytest.raises(UnreadableError, match=message.replace("[", r"\[")):
        from_config(config)
