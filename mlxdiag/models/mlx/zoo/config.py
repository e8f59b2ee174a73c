"""The config of a tiny instance, from the library's own argument class. Pure but for reading that class."""

from __future__ import annotations

import importlib
import inspect
from types import ModuleType
from typing import Any

from mlxdiag.models.configs import sizes
from mlxdiag.models.mlx.zoo import fields
from mlxdiag.models.mlx.zoo.rows import Row

ABSENT = object()


def derive(module: ModuleType, row: Row, depth: int) -> dict[str, Any]:
    """A config.json that the module's `ModelArgs` takes, with `depth` layers. `row` has the last word.

    Raises ValueError for a field without a default that neither the tables nor the row know.
    """
    inner = text_arguments(module, row)
    if row.text is None:
        return filled(inner, row.set, depth) | {"model_type": row.model_type}
    text = filled(inner, row.set, depth) | {"model_type": row.text_type}
    outer = _arguments(module.ModelArgs)
    top = filled(
        {name: default for name, default in outer.items() if name != "text_config"}, row.outer, depth
    )
    return {**top, "model_type": row.model_type, "text_config": text}


def filled(arguments: dict[str, Any], given: dict[str, Any], depth: int) -> dict[str, Any]:
    """Values by field name: what is given, else a size, else what is typical where there is no default."""
    hidden = fields.NARROW if any(name in arguments for name in fields.HEAD_DIMS) else fields.WIDE
    config = dict(given)
    for name, default in arguments.items():
        if name in config or name == "model_type":
            continue
        if name in fields.HIDDEN:
            config[name] = hidden
        elif name in sizes.DEPTHS:
            config[name] = depth
        elif name in fields.SIZES and not (default is None and name not in fields.ALWAYS):
            config[name] = fields.SIZES[name]
        elif default is ABSENT:
            if name not in fields.TYPICAL:
                raise ValueError(f"no value is known for the field {name}")
            config[name] = fields.TYPICAL[name]
    return config


def text_arguments(module: ModuleType, row: Row) -> dict[str, Any]:
    """Fields that describe the text model, with their defaults: the module's own, or the inner ones."""
    if row.text is None:
        return _arguments(module.ModelArgs)
    name, _, cls = row.text.partition(":")
    return _arguments(getattr(importlib.import_module(f"mlx_lm.models.{name}"), cls or "ModelArgs"))


def _arguments(arguments: Any) -> dict[str, Any]:
    """Fields of an argument class with their defaults, ABSENT where one has none."""
    parameters = inspect.signature(arguments).parameters.values()
    return {p.name: ABSENT if p.default is inspect.Parameter.empty else p.default for p in parameters}
