"""From the config.json that transformers 5 saves to the one that is published. Pure.

Since transformers 5 everything about rotation stands in `rope_parameters`; published configs have
`rope_theta`, `rope_scaling`, `partial_rotary_factor`; and `rope_local_base_freq` where kinds of layers
differ. Kinds of layers are listed by `layer_types`; older ones have `sliding_window_pattern`, the place of
the full layers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mlxdiag.models.convert.fields import FULL, SLIDING, derived
from mlxdiag.models.convert.rows import Row

OUTER = ("vocab_size", "tie_word_embeddings")
"""Fields that stand in a wrapper as well as in its text config."""


def published(saved: Mapping[str, Any], row: Row) -> dict[str, Any]:
    """The published form of a saved config. What newer published configs have as well is kept beside it."""
    saved = saved["text_config"] if row.unwrap else saved
    config = {**_rotation(saved.get("rope_parameters") or {}), **_pattern(saved.get("layer_types"))}
    config.update({name: value for name, value in saved.items() if name not in config})
    config.update(derived(saved, row.fields))
    for name, other in row.rename.items():
        if name in config:
            config[other] = config.pop(name)
    config.update(row.publish)
    for name in row.drop:
        config.pop(name, None)
    kind = row.model_type or str(saved["model_type"])
    if not row.wrap:
        return {**config, "model_type": kind}
    outer: dict[str, Any] = {name: config[name] for name in OUTER if name in config}
    return {"model_type": kind, **outer, "text_config": config}


def _rotation(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """`rope_parameters`, one for all layers or one for each kind, as flat fields."""
    if not any(isinstance(part, Mapping) for part in parameters.values()):
        return _flat(parameters)
    flat = _flat(parameters.get(FULL) or {})
    local = parameters.get(SLIDING) or {}
    return {**flat, "rope_local_base_freq": local["rope_theta"]} if "rope_theta" in local else flat


def _flat(parameters: Mapping[str, Any]) -> dict[str, Any]:
    if "rope_theta" not in parameters:
        return {}
    own = ("rope_theta", "partial_rotary_factor")
    flat = {name: parameters[name] for name in own if name in parameters}
    rest = {name: value for name, value in parameters.items() if name not in own}
    scaled = rest.get("rope_type", "default") != "default"
    return {**flat, "rope_scaling": rest if scaled else None}


def _pattern(kinds: Sequence[str] | None) -> dict[str, Any]:
    """Every n-th layer is full, where that is so; a list without an order has no such number."""
    if not kinds or FULL not in kinds or SLIDING not in kinds:
        return {}
    every = kinds.index(FULL) + 1
    regular = [FULL if (index + 1) % every == 0 else SLIDING for index in range(len(kinds))]
    return {"sliding_window_pattern": every} if list(kinds) == regular else {}
