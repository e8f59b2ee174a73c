"""A tiny instance of any family of the library."""

from __future__ import annotations

from typing import Any

from mlxdiag.models.adapter import Skipped
from mlxdiag.models.configs.geometry import from_config
from mlxdiag.models.mlx import library
from mlxdiag.models.mlx import tiny as tiny_models
from mlxdiag.models.mlx.instance import MlxInstance
from mlxdiag.models.mlx.zoo import fields
from mlxdiag.models.mlx.zoo.config import derive
from mlxdiag.models.mlx.zoo.rows import row


def tiny(family: str, seed: int = 0) -> MlxInstance | Skipped:
    """The family at a window of 8 with random float32 weights. Equal seeds give equal weights.

    Returns Skipped, with a reason, for a family that the library lacks or that cannot run here.
    """
    config = tiny_config(family)
    if isinstance(config, Skipped):
        return config
    return tiny_models.instance(config, seed=seed, name=family)


def tiny_config(family: str) -> dict[str, Any] | Skipped:
    """The config that `tiny` builds; Skipped where it would not build."""
    entry = row(family)
    module = library.family(entry.module or family)
    if isinstance(module, Skipped):
        return module
    if entry.metal and not _metal():
        return Skipped(f"{family} runs on Metal only: {entry.metal}", "run the audit on a Mac")
    try:
        config = derive(module, entry, fields.DEPTH)
        return config if _kinds(config) > 1 else derive(module, entry, fields.ALIKE)
    except ValueError as error:
        return Skipped(f"no tiny config of {family} is known: {error}")


def _kinds(config: dict[str, Any]) -> int:
    """How many kinds of layers a config describes; layers without token mixing are one more."""
    geometry = from_config(config)
    told = {
        (one.family, one.shares is None, one.sinks, one.softmax, one.positions) for one in geometry.layers
    }
    return len(told) + (len(geometry.layers) < geometry.depth)


def _metal() -> bool:
    import mlx.core as mx

    return bool(mx.metal.is_available())
