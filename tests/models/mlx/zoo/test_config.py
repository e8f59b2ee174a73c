"""A config from the names of an argument class's fields."""

from __future__ import annotations

import pytest

from mlxdiag.models.mlx.zoo.config import ABSENT, filled


def test_what_is_given_wins_over_every_table() -> None:
    assert filled({"vocab_size": 5}, {"vocab_size": 7}, 4)["vocab_size"] == 7


def test_a_size_replaces_a_default_but_not_null() -> None:
    found = filled({"sliding_window": 4096, "window_size": None, "num_hidden_layers": 40}, {}, 4)
    assert found == {"sliding_window": 8, "num_hidden_layers": 4}


def test_heads_are_grouped_even_where_the_default_would_give_each_its_own_keys() -> None:
    assert filled({"num_key_value_heads": None}, {}, 4) == {"num_key_value_heads": 2}


def test_the_width_is_heads_times_their_size_where_the_head_size_follows_from_it() -> None:
    assert filled({"hidden_size": 4096}, {}, 4)["hidden_size"] == 4 * 32
    assert filled({"hidden_size": 4096, "head_dim": 64}, {}, 4) == {"hidden_size": 64, "head_dim": 32}


def test_other_fields_keep_their_defaults_and_typical_values_fill_what_has_none() -> None:
    assert filled({"rms_norm_eps": 1e-6}, {}, 4) == {}
    assert filled({"rms_norm_eps": ABSENT}, {}, 4) == {"rms_norm_eps": 1e-5}


def test_a_field_that_nobody_knows_is_named() -> None:
    with pytest.raises(ValueError, match="flux_capacitance"):
        filled({"flux_capacitance": ABSENT}, {}, 4)
