"""Fields that follow from others, against configs as they are published."""

import pytest

from mlxdiag.errors import UsageError
from mlxdiag.models.convert.fields import RULES, derived

S, F = "sliding_attention", "full_attention"


def test_a_head_is_its_share_of_the_width() -> None:
    assert derived({"hidden_size": 64, "num_attention_heads": 4}, ["head_dim"]) == {"head_dim": 16}
    assert (
        derived({"hidden_size": 64, "num_attention_heads": 4, "head_dim": 32}, ["head_dim"])["head_dim"] == 32
    )


@pytest.mark.parametrize(
    ("kinds", "letters"), [([S, S, S, F] * 2, "LLLG"), ([S, F], "LG"), ([F, F], "G"), ([S, F, F], "LGG")]
)
def test_a_pattern_has_as_few_letters_as_repeat(kinds: list[str], letters: str) -> None:
    # LGAI-EXAONE/EXAONE-4.0-32B: "sliding_window_pattern": "LLLG".
    assert derived({"layer_types": kinds}, ["pattern_letters"])["sliding_window_pattern"] == letters


def test_heads_of_full_layers_come_from_the_layers_that_depart() -> None:
    config = {
        "head_dim": 32,
        "num_key_value_heads": 2,
        "layer_types": [S, F],
        "per_layer_config": {"1": {"head_dim": 64, "num_key_value_heads": 1}},
    }
    assert derived(config, ["global_heads"]) == {"global_head_dim": 64, "num_global_key_value_heads": 1}


def test_a_window_of_mimo_does_not_count_the_query() -> None:
    config = {
        "layer_types": [F, S],
        "sliding_window": 129,
        "num_attention_heads": 8,
        "num_key_value_heads": 2,
        "head_dim": 32,
    }
    # XiaomiMiMo/MiMo-V2-Flash publishes 128, and transformers' default is 129.
    assert derived(config, ["kinds_of_mimo"])["sliding_window_size"] == 128
    assert derived(config, ["kinds_of_mimo"])["hybrid_layer_pattern"] == [0, 1]


def test_recurrent_layers_of_kimi_are_counted_from_one() -> None:
    linear = "linear_attention"
    config = {
        "layer_types": [linear, linear, linear, F],
        "mlp_layer_types": ["dense", "sparse", "sparse", "sparse"],
        "linear_num_heads": 32,
        "linear_head_dim": 128,
        "linear_conv_kernel_dim": 4,
    }
    # moonshotai/Kimi-Linear-48B-A3B-Instruct: kda_layers [1, 2, 3, 5, ...], full_attn_layers [4, 8, ...].
    told = derived(config, ["kinds_of_kimi"])
    assert told["linear_attn_config"]["kda_layers"] == [1, 2, 3]
    assert told["linear_attn_config"]["full_attn_layers"] == [4]
    assert told["linear_attn_config"]["num_heads"] == 32
    assert told["first_k_dense_replace"] == 1


def test_a_head_of_bailing_is_that_of_its_recurrent_layers() -> None:
    # transformers overwrites head_dim with the rotated part's size, and keeps the other beside it.
    config = {"head_dim": 64, "linear_head_dim": 128, "moe_intermediate_size": 768}
    assert derived(config, ["kinds_of_bailing"]) == {
        "head_dim": 128,
        "moe_shared_expert_intermediate_size": 768,
    }


def test_layers_with_experts_are_told_in_each_familys_form() -> None:
    config = {"mlp_layer_types": ["dense", "sparse", "sparse"]}
    assert derived(config, ["expert_layers"]) == {
        "is_moe_layer": [False, True, True],
        "moe_layer_freq": [0, 1, 1],
        "moe_layers_enum": "1,2",
    }


def test_an_unknown_rule_is_named_with_those_that_there_are() -> None:
    with pytest.raises(UsageError, match=r"no rule 'heads'; known: head_dim"):
        derived({}, ["heads"])


def test_every_rule_is_one_of_the_data_files() -> None:
    from mlxdiag.models.convert.rows import table

    assert {name for row in table().values() for name in row.fields} == set(RULES)
