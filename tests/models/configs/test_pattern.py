"""Spellings of layer kinds, read as transformers reads the same fields."""

from __future__ import annotations

from typing import Any

import pytest
from transformers import AutoConfig

from mlxdiag.models.configs.geometry import from_config
from mlxdiag.models.configs.pattern import cycle

WORDS = {"full_attention": "full", "attention": "full", "sliding_attention": "sliding"} | dict.fromkeys(
    ("linear_attention", "mamba", "conv"), "recurrent"
)


@pytest.mark.parametrize(
    "config",
    [
        {"model_type": "lfm2", "num_hidden_layers": 6, "full_attn_idxs": [2, 5]},
        {"model_type": "jamba", "num_hidden_layers": 9, "attn_layer_period": 4, "attn_layer_offset": 2},
        {"model_type": "qwen3_next", "num_hidden_layers": 8, "full_attention_interval": 4},
        {"model_type": "afmoe", "num_hidden_layers": 8, "global_attn_every_n_layers": 2},
        {"model_type": "cohere2", "num_hidden_layers": 6, "sliding_window_pattern": 3},
        {
            "model_type": "granitemoehybrid",
            "num_hidden_layers": 3,
            "layer_types": ["mamba", "attention", "mamba"],
        },
    ],
    ids=lambda config: config["model_type"],
)
def test_a_spelling_means_what_transformers_reads(config: dict[str, Any]) -> None:
    fields = {name: value for name, value in config.items() if name != "model_type"}
    meant = AutoConfig.for_model(config["model_type"], **fields)
    kinds = getattr(meant, "layer_types", None) or meant.layers_block_type
    assert [layer.attention for layer in from_config(config).layers] == [WORDS[kind] for kind in kinds]


def test_flags_mark_the_sliding_layers_of_mimo() -> None:
    # MiMo-V2-Flash: 48 layers, 0 at the nine global ones; transformers counts the query on top.
    flags = [0 if index in (0, 5, 11, 17, 23, 29, 35, 41, 47) else 1 for index in range(48)]
    config = {"num_hidden_layers": 48, "hybrid_layer_pattern": flags, "sliding_window_size": 128}
    families = from_config({"model_type": "mimo_v2_flash", **config}).families()
    assert families["full"].layers == [0, 5, 11, 17, 23, 29, 35, 41, 47]
    assert (families["sliding"].count, families["sliding"].window) == (39, 129)


def test_a_list_that_also_names_draft_layers_is_cut_at_the_depth() -> None:
    layers = from_config(
        {"model_type": "step3p5", "num_hidden_layers": 2, "layer_types": ["full_attention"] * 5}
    ).layers
    assert len(layers) == 2


def test_a_pattern_repeats_and_ends_where_the_layers_do() -> None:
    assert cycle("LLG", 7) == "LLGLLGL"
    assert cycle("G", 3) == "GGG"


def test_a_pattern_of_one_or_none_has_no_sliding_layer() -> None:
    for pattern in (0, 1):
        config = {"model_type": "gemma3_text", "sliding_window_pattern": pattern}
        assert {layer.attention for layer in from_config(config).layers} == {"full"}


@pytest.mark.parametrize(
    "config",
    [
        {"model_type": "kimi_linear", "num_hidden_layers": 8},
        {"model_type": "bailing_hybrid", "num_hidden_layers": 16, "layer_group_size": 8},
    ],
    ids=lambda config: config["model_type"],
)
def test_recurrent_layers_that_are_numbered_or_grouped_are_where_transformers_has_them(
    config: dict[str, Any],
) -> None:
    fields = {name: value for name, value in config.items() if name != "model_type"}
    meant = AutoConfig.for_model(config["model_type"], **fields)
    numbers = [index + 1 for index, kind in enumerate(meant.layer_types) if kind == "linear_attention"]
    if config["model_type"] == "kimi_linear":
        config = {**config, "linear_attn_config": {"kda_layers": numbers}}
    assert [layer.attention for layer in from_config(config).layers] == [
        WORDS[kind] for kind in meant.layer_types
    ]


def test_blocks_of_nemotron_nas_without_attention_are_left_out() -> None:
    blocks = [{"attention": {"n_heads_in_group": 8}}, {"attention": {"no_op": True}}]
    blocks += [{"attention": {"replace_with_linear": True}}, {"attention": {"n_heads_in_group": 8}}]
    config = {"model_type": "nemotron-nas", "num_hidden_layers": 4, "block_configs": blocks}
    assert [layer.index for layer in from_config(config).layers] == [0, 3]


def test_plamo2_attends_on_every_second_layer_in_a_window_unless_listed_as_full() -> None:
    # plamo-2: mamba_step 2, attention in the middle of each step.
    config = {"model_type": "plamo2", "num_hidden_layers": 6, "mamba_step": 2, "attention_window_size": 2048}
    layers = from_config({**config, "full_attention_idx": [3]}).layers
    assert [layer.attention for layer in layers[1::2]] == ["sliding", "full", "sliding"]
    # Its modeling code masks with triu(k=-window): as many keys before the query, and the query.
    assert [layer.window for layer in layers[1::2]] == [2049, None, 2049]
    assert {layer.attention for layer in layers[::2]} == {"recurrent"}


def test_layers_whose_keys_an_indexer_picks_are_told_from_plain_ones() -> None:
    kinds = ["full_attention", "minimax_m3_sparse", "minimax_m3_sparse"]
    config = {"model_type": "minimax_m3_vl_text", "num_hidden_layers": 3, "layer_types": kinds}
    assert [layer.softmax for layer in from_config(config).layers] == ["fused", "opaque", "opaque"]


def test_sinks_may_be_on_sliding_layers_only() -> None:
    flags = {"add_swa_attention_sink_bias": True, "add_full_attention_sink_bias": False}
    config = {"model_type": "mimo_v2_flash", "hybrid_layer_pattern": [0, 1], "sliding_window_size": 128}
    layers = from_config({**config, "num_hidden_layers": 2, **flags}).layers
    assert [layer.sinks for layer in layers] == [False, True]


@pytest.mark.parametrize(
    "fields",
    [{"no_rope_layers": [1, 0]}, {"layer_rope_theta": [10000.0, 0.0]}],
    ids=["flags", "thetas"],
)
def test_a_layer_without_rotation_is_named_by_a_flag_or_by_its_base(fields: dict[str, Any]) -> None:
    layers = from_config({"model_type": "smollm3", "num_hidden_layers": 2, **fields}).layers
    assert [layer.positions for layer in layers] == [True, False]
