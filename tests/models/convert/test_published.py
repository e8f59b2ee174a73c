"""The published form of a config, from published configs that anyone can read on the hub."""

from mlxdiag.models.convert.published import published
from mlxdiag.models.convert.rows import Row

GEMMA3 = {
    "model_type": "gemma3_text",
    "sliding_window": 512,
    "layer_types": ["sliding_attention"] * 5 + ["full_attention"],
    "rope_parameters": {
        "full_attention": {"rope_theta": 1000000.0, "rope_type": "default"},
        "sliding_attention": {"rope_theta": 10000.0, "rope_type": "default"},
    },
}
YARN = {"rope_type": "yarn", "factor": 32.0, "beta_fast": 32.0, "truncate": False}


def test_two_kinds_of_rotation_are_flat_as_gemma_3_publishes_them() -> None:
    config = published(GEMMA3, Row())
    # google/gemma-3-1b-it: rope_theta 1000000, rope_local_base_freq 10000, sliding_window_pattern 6.
    assert config["rope_theta"] == 1000000.0
    assert config["rope_local_base_freq"] == 10000.0
    assert config["rope_scaling"] is None
    assert config["sliding_window_pattern"] == 6


def test_what_newer_configs_have_is_kept_beside_it() -> None:
    config = published(GEMMA3, Row())
    assert config["layer_types"] == GEMMA3["layer_types"]
    assert config["rope_parameters"] == GEMMA3["rope_parameters"]


def test_a_scaling_keeps_its_fields_and_loses_the_base() -> None:
    saved = {"model_type": "gpt_oss", "rope_parameters": {"rope_theta": 150000.0, **YARN}}
    config = published(saved, Row())
    assert (config["rope_theta"], config["rope_scaling"]) == (150000.0, YARN)


def test_a_partial_rotation_stands_on_its_own() -> None:
    parameters = {"rope_theta": 1e4, "rope_type": "default", "partial_rotary_factor": 0.5}
    config = published({"model_type": "glm4", "rope_parameters": parameters}, Row())
    assert config["partial_rotary_factor"] == 0.5
    assert config["rope_scaling"] is None


def test_kinds_without_an_order_have_no_pattern() -> None:
    kinds = ["full_attention", "sliding_attention", "sliding_attention"]
    assert "sliding_window_pattern" not in published({"model_type": "x", "layer_types": kinds}, Row())


def test_a_field_is_renamed_dropped_and_set_in_this_order() -> None:
    saved = {"model_type": "exaone", "num_hidden_layers": 30, "rms_norm_eps": 1e-5, "extra": 1}
    row = Row(rename={"num_hidden_layers": "num_layers"}, publish={"rms_norm_eps": 1e-6}, drop=["extra"])
    assert published(saved, row) == {"model_type": "exaone", "num_layers": 30, "rms_norm_eps": 1e-6}


def test_a_text_model_is_wrapped_under_the_type_that_is_published() -> None:
    config = published({"model_type": "gemma3n_text", "vocab_size": 8}, Row(model_type="gemma3n", wrap=True))
    assert config["model_type"] == "gemma3n"
    assert config["vocab_size"] == 8
    assert config["text_config"] == {"model_type": "gemma3n_text", "vocab_size": 8}


def test_a_wrapper_is_taken_off() -> None:
    saved = {"model_type": "step3p7", "text_config": {"model_type": "step3p5", "head_dim": 32}}
    row = Row(model_type="step3p5", unwrap=True)
    assert published(saved, row) == {"model_type": "step3p5", "head_dim": 32}
