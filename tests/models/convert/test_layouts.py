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


def test_experts_all_in_one_become_one_by_one_with_the_gate_first() -> None:
    weights = {
        "m.experts.gate_up_proj": numbered(2, 4, 3),
        "m.experts.down_proj": numbered(2, 3, 2),
        "m.gate.weight": numbered(1),
    }
    laid = laid_out(weights, {}, Row(weights=["experts_apart"]))
    assert set(laid) == {f"m.experts.{e}.w{part}.weight" for e in range(2) for part in (1, 2, 3)} | {
        "m.gate.weight"
    }
    assert np.array_equal(laid["m.experts.1.w1.weight"], weights["m.experts.gate_up_proj"][1, :2])
    assert np.array_equal(laid["m.experts.1.w3.weight"], weights["m.experts.gate_up_proj"][1, 2:])
    assert np.array_equal(laid["m.experts.1.w2.weight"], weights["m.experts.down_proj"][1])
    # And back again by the rule of the other direction, which knows them by other names.
    names = {"w1": "gate_proj", "w2": "down_proj", "w3": "up_proj"}
    renamed = Row(weights=["experts_in_one"])
    again = {
        name.replace(old, new): value
        for name, value in laid.items()
        for old, new in names.items()
        if f".{old}." in name
    }
    assert np.array_equal(
        laid_out(again, {}, renamed)["m.experts.gate_up_proj"], weights["m.experts.gate_up_proj"]
    )


def test_a_gate_is_the_first_half() -> None:
    weights = {"m.mlp.gate_up_proj.weight": numbered(4, 3), "m.experts.gate_up_proj": numbered(2, 4, 3)}
    laid = laid_out(weights, {}, Row(weights=["gates_apart"]))
    assert set(laid) == {"m.mlp.gate_proj.weight", "m.mlp.up_proj.weight", "m.experts.gate_up_proj"}
    assert np.array_equal(laid["m.mlp.gate_proj.weight"], weights["m.mlp.gate_up_proj.weight"][:2])


def test_experts_that_compute_nothing_have_no_weights() -> None:
    weights = {f"m.experts.{e}.gate_proj.weight": numbered(1) for e in (0, 1, 2, 10)}
    laid = laid_out(weights, {"n_routed_experts": 2}, Row(weights=["real_experts"]))
    assert list(laid) == ["m.experts.0.gate_proj.weight", "m.experts.1.gate_proj.weight"]


def test_the_last_projection_of_recurrent_layers_alone_is_renamed() -> None:
    weights = {f"model.layers.{at}.attention.dense.weight": numbered(1) for at in (0, 1, 10)}
    kinds = ["linear_attention", "full_attention", *["full_attention"] * 8, "linear_attention"]
    laid = laid_out(weights, {"layer_types": kinds}, Row(weights=["recurrent_output"]))
    assert list(laid) == [
        "model.layers.0.attention.o_proj.weight",
        "model.layers.1.attention.dense.weight",
        "model.layers.10.attention.o_proj.weight",
    ]


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
