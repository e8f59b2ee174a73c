"""What the installed library holds: modules that are language models, and why the others are not."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache

import msgspec

from mlxdiag.models.adapter import Skipped
from mlxdiag.models.mlx import library
from mlxdiag.models.mlx.zoo.rows import table


class Inventory(msgspec.Struct, frozen=True):
    """Modules of `mlx_lm.models`, each exactly once."""

    models: tuple[str, ...]
    """Modules with a Model and a ModelArgs."""
    others: dict[str, str]
    """The rest, with the reason."""


@cache
def inventory() -> Inventory:
    """Import every module of the library's model package. A library that is missing has none."""
    if isinstance(library.load(), Skipped):
        return Inventory((), {})
    package = importlib.import_module("mlx_lm.models")
    models, others = [], {}
    for name in sorted(module.name for module in pkgutil.iter_modules(package.__path__)):
        found = library.family(name)
        if isinstance(found, Skipped):
            others[name] = str(found)
        else:
            models.append(name)
    return Inventory(tuple(models), others)


def modules() -> tuple[str, ...]:
    """Every module of the library that holds a language model, sorted."""
    return inventory().models


def families() -> tuple[str, ...]:
    """The rows of an audit: every module, and the model types of the data file that another module runs."""
    aliases = {name for name, row in table().items() if row.module in modules()}
    return tuple(sorted({*modules(), *aliases}))
