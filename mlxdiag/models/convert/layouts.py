"""Layouts of weights: one function for each way in which published weights differ from saved ones. Pure.

A rule takes all weights by name, and the saved config. It may rename, split, join and transpose, and never
rounds.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mlxdiag.errors import UsageError
from mlxdiag.models.convert.rows import Row

Weights = dict[str, NDArray[Any]]
Rule = Callable[[Weights, Mapping[str, Any]], Weights]


def laid_out(weights: Weights, config: Mapping[str, Any], row: Row) -> Weights:
    """The weights as they are published.

    Raises:
        UsageError: the data file names a rule that there is not, or two weights get one name.
    """
    if row.omit:
        weights = {name: value for name, value in weights.items() if not re.search(row.omit, name)}
    for name in row.weights:
        if name not in RULES:
            raise UsageError(f"families.yaml: no rule {name!r}; known: {', '.join(RULES)}")
        weights = RULES[name](weights, config)
    for pattern, new in row.keys.items():
        renamed = {re.sub(pattern, new, name): value for name, value in weights.items()}
        if len(renamed) != len(weights):
            raise UsageError(f"families.yaml: {pattern!r} gives two weights one name")
        weights = renamed
    return weights


def experts_by_output(weights: Weights, _config: Mapping[str, Any]) -> Weights:
    """Experts [E, in, out] as [E, out, in]."""
    return {
        name: np.ascontiguousarray(value.swapaxes(-1, -2))
        if re.search(r"experts\.(gate_up_proj|down_proj)$", name)
        else value
        for name, value in weights.items()
    }


def experts_in_one(weights: Weights, _config: Mapping[str, Any]) -> Weights:
    """Experts one by one as all in one: `gate_up_proj` [E, 2 * out, in] and `down_proj` [E, out, in]."""
    one = re.compile(r"^(.*\.experts)\.(\d+)\.(gate|up|down)_proj\.weight$")
    laid = {name: value for name, value in weights.items() if not one.match(name)}
    parts: dict[str, dict[tuple[str, int], NDArray[Any]]] = {}
    for name, value in weights.items():
        if found := one.match(name):
            parts.setdefault(found[1], {})[found[3], int(found[2])] = value
    for name, held in parts.items():
        count = len(held) // 3
        both = (np.concatenate([held["gate", e], held["up", e]]) for e in range(count))
        laid[f"{name}.gate_up_proj"] = np.stack(list(both))
        laid[f"{name}.down_proj"] = np.stack([held["down", e] for e in range(count)])
    return laid


def experts_apart(weights: Weights, _config: Mapping[str, Any]) -> Weights:
    """Experts all in one, one by one: `w1` and `w3` are the halves of `gate_up_proj`, `w2` is `down_proj`."""
    laid: Weights = {}
    for name, value in weights.items():
        owner, _, part = name.rpartition(".")
        if not owner.endswith(".experts"):
            laid[name] = value
            continue
        for number, one in enumerate(value):
            halves = (
                dict(zip(("w1", "w3"), np.split(one, 2), strict=True))
                if part == "gate_up_proj"
                else {"w2": one}
            )
            laid.update({f"{owner}.{number}.{half}.weight": array for half, array in halves.items()})
    return laid


def gates_apart(weights: Weights, _config: Mapping[str, Any]) -> Weights:
    """`gate_up_proj` [2 * out, in] of a feed-forward part as `gate_proj` and `up_proj`."""
    both = ".gate_up_proj.weight"
    laid = {name: value for name, value in weights.items() if not name.endswith(both)}
    for name in weights.keys() - laid.keys():
        gate, up = np.split(weights[name], 2)
        laid[name.replace(both, ".gate_proj.weight")] = gate
        laid[name.replace(both, ".up_proj.weight")] = up
    return laid


def real_experts(weights: Weights, config: Mapping[str, Any]) -> Weights:
    """Without the weights of experts that compute nothing, which are numbered behind the others."""
    one = re.compile(r"\.experts\.(\d+)\.")
    count = int(config["n_routed_experts"])
    return {
        name: value
        for name, value in weights.items()
        if (found := one.search(name)) is None or int(found[1]) < count
    }


def recurrent_output(weights: Weights, config: Mapping[str, Any]) -> Weights:
    """The last projection of a recurrent layer under its own name, where it is saved under a full layer's."""
    linear = [str(index) for index, kind in enumerate(config["layer_types"]) if kind == "linear_attention"]
    saved = re.compile(rf"^(model\.layers\.(?:{'|'.join(linear)})\.attention)\.dense\.")
    return {saved.sub(r"\1.o_proj.", name): value for name, value in weights.items()}


def unread_keys(weights: Weights, config: Mapping[str, Any]) -> Weights:
    """Zeros for the key and value weights of layers that read an earlier layer's keys."""
    depth = int(config["num_hidden_layers"])
    first = depth - int(config["num_kv_shared_layers"])
    laid = dict(weights)
    for layer in range(first, depth):
        for name, value in weights.items():
            if re.match(r"model\.layers\.0\.self_attn\.(k_proj|v_proj|k_norm)\.", name):
                laid[name.replace("layers.0", f"layers.{layer}")] = np.zeros_like(value)
    return laid


RULES: Mapping[str, Rule] = {
    "experts_by_output": experts_by_output,
    "experts_in_one": experts_in_one,
    "experts_apart": experts_apart,
    "gates_apart": gates_apart,
    "real_experts": real_experts,
    "recurrent_output": recurrent_output,
    "unread_keys": unread_keys,
}
"""By the name that `families.yaml` uses."""
