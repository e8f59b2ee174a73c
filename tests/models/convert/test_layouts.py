"""Layouts of weights: names and axes change, and no number does."""

import numpy as np
import pytest

from mlxdiag.errors import UsageError
from mlxdiag.models.convert.layouts import RULES, laid_out
from mlxdiag.models.convert.rows import Row, table


def numbered(*shape: int) -> np.ndarray:
    return np.arange(np.prod(shape), dtype=np.float32).reshape(shape)


def test_experts_are_turned_by_output() -> None:
    weights = {"model.layers.0.mlp.experts.down_proj": numbered(2, 3, 4), "norm.weight": numbered(3)}
    laid = laid_out(weights, {}, Row(weights=["experts_by_output"]))
    assert laid["model.layers.0.mlp.experts.down_proj"].shape == (2, 4, 3)
    assert (
        laid["model.layers.0.mlp.experts.down_proj"][1, 3, 2]
        == weights["model.layers.0.mlp.experts.down_proj"][1, 2, 3]
    )
    assert laid["norm.weight"] is weights["norm.weight"]


def test_experts_one_by_one_become_one_with_the_gate_first() -> None:
    weights = {
        f"m.experts.{e}.{part}_proj.weight": numbered(2, 3) + 100 * e + 10 * at
        for e in range(2)
        for at, part in enumerate(("gate", "up"))
    } | {f"m.experts.{e}.down_proj.weight": numbered(3, 2) + e for e in range(2)}
    laid = laid_out(weights, {}, Row(weights=["experts_in_one"]))
    assert set(laid) == {"m.experts.gate_up_proj", "m.experts.down_proj"}
    assert laid["m.experts.gate_up_proj"].shape == (2, 4, 3)
    assert laid["m.experts.gate_up_proj"][1, 0, 0] == 100
    assert laid["m.experts.gate_up_proj"][1, 2, 0] == 110


def test_layers_that_share_keys_get_zeros_nobody_reads() -> None:
    weights = {
        f"model.layers.0.self_attn.{part}.weight": numbered(2) for part in ("k_proj", "v_proj", "q_proj")
    }
    config = {"num_hidden_layers": 3, "num_kv_shared_layers": 1}
    laid = laid_out(weights, config, Row(weights=["unread_keys"]))
    assert set(laid) - set(weights) == {
        "model.layers.2.self_attn.k_proj.weight",
        "model.layers.2.self_attn.v_proj.weight",
    }
    assert not laid["model.layers.2.self_attn.k_proj.weight"].any()


def test_names_are_replaced_and_other_parts_left_out() -> None:
    row = Row(omit="^vision_", keys={r"^model\.": "model.language_model."})
    laid = laid_out({"vision_model.x": numbered(1), "model.norm.weight": numbered(2)}, {}, row)
    assert list(laid) == ["model.language_model.norm.weight"]


def test_two_weights_never_become_one() -> None:
    with pytest.raises(UsageError, match="gives two weights one name"):
        laid_out({"a.w": numbered(1), "b.w": numbered(1)}, {}, Row(keys={"^[ab]": "c"}))


def test_an_unknown_rule_is_named() -> None:
    with pytest.raises(UsageError, match="no rule 'turned'; known: experts_by_output"):
        laid_out({}, {}, Row(weights=["turned"]))


def test_every_rule_is_one_of_the_data_files() -> None:
    assert {name for row in table().values() for name in row.weights} == set(RULES)
