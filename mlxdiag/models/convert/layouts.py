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
    "unread_keys": unread_keys,
}
"""By the name that `families.yaml` uses."""
