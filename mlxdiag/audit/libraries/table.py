"""The audited libraries: the visible table."""

from __future__ import annotations

from importlib import import_module

from mlxdiag.audit.libraries.library import Library
from mlxdiag.models.adapter import Instance

MODULES = {
    "mlx-lm": ("mlxdiag.audit.libraries.mlx_lm", "mlx"),
    "transformers": ("mlxdiag.audit.libraries.transformers", "torch"),
}
"""By name: the module that holds a `LIBRARY`, and the backend of its instances."""
NAMES = tuple(MODULES)


def named(name: str) -> Library:
    """The library of this name, which must be one of `NAMES`."""
    library: Library = import_module(MODULES[name][0]).LIBRARY
    return library


def of(instance: Instance) -> Library:
    """The library that an instance runs on."""
    return named(next(name for name, (_, backend) in MODULES.items() if backend == instance.backend.name))
