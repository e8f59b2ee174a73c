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


RULES: Mapping[str, Rule] = {
    "experts_by_output": experts_by_output,
}
"""By the name that `families.yaml` uses."""
