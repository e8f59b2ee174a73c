"""What the installed library holds: modules that are language models, and why the others are not."""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path

import msgspec

from mlxdiag.models.adapter import Skipped
from mlxdiag.models.mlx import library
from mlxdiag.models.mlx.zoo.rows import row, table

NAMED = re.compile(r"^(?:class +Model\b|from .*\bimport\b.*\bModel\b)", re.MULTILINE)
"""How a module's text says that it holds a language model, whether or not it can be imported."""


class Inventory(msgspec.Struct, frozen=True):
    """Modules of `mlx_lm.models`, each exactly once."""

    models: tuple[str, ...]
    """Modules with a Model and a ModelArgs."""
    broken: dict[str, Skipped]
    """Modules that are models by their text and cannot be imported: a `library.Broken` where the library is
    to blame, else what is missing."""
    others: dict[str, str]
    """The rest, with the reason."""


def names() -> list[str]:
    """Every module of the library's model package, sorted. The library must be loaded."""
    package = importlib.import_module("mlx_lm.models")
    return sorted(module.name for module in pkgutil.iter_modules(package.__path__))


@cache
def inventory() -> Inventory:
    """Import every module of the library's model package. A library that is missing has none."""
    if isinstance(library.load(), Skipped):
        return Inventory((), {}, {})
    package = importlib.import_module("mlx_lm.models")
    models, broken, others = [], {}, {}
    for name in names():
        found = library.family(name)
        if isinstance(found, Skipped) and _is_model(package.__path__, name):
            broken[name] = found
        elif isinstance(found, Skipped):
            others[name] = str(found)
        else:
            models.append(name)
    return Inventory(tuple(models), broken, others)


def _is_model(folders: Iterable[str], name: str) -> bool:
    """Whether the file of a module, which is read and not run, holds a language model."""
    for folder in map(Path, folders):
        for file in (folder / f"{name}.py", folder / name / "__init__.py"):
            if file.is_file():
                text = file.read_bytes().decode("utf-8", "replace")
                return NAMED.search(text) is not None and "ModelArgs" in text
    return False


def modules() -> tuple[str, ...]:
    """Every module of the library that holds a language model and can be imported, sorted."""
    return inventory().models


def families() -> tuple[str, ...]:
    """The rows of an audit: every module, also those that cannot be imported, and the model types of the data
    file that another module runs."""
    held = {*modules(), *inventory().broken}
    return tuple(sorted(held | {name for name, entry in table().items() if entry.module in held}))


def broken(family: str) -> Skipped | None:
    """Why the module of a family cannot be imported; None where it can."""
    return inventory().broken.get(row(family).module or family)
