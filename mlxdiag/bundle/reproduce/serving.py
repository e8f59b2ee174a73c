"""The serving library that a trace is of: what its scripts need, and by which names it goes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from mlxdiag.models import backends


class Library(msgspec.Struct, frozen=True, kw_only=True):
    """Names of one."""

    backend: str
    """As `models.backends` calls it."""
    name: str
    needs: str
    """In words: what a script imports."""
    modules: tuple[str, ...]
    packages: str
    """For `pip install`."""


LIBRARIES = {
    "mlx": Library(
        backend="mlx", name="mlx-lm", needs="mlx-lm", modules=("mlx", "mlx_lm"), packages="mlx-lm"
    ),
    "torch": Library(
        backend="torch",
        name="transformers",
        needs="transformers and torch",
        modules=("torch", "transformers"),
        packages="transformers torch",
    ),
}


def of(environment: Mapping[str, Any] | None) -> Library:
    """The library that a trace's environment names; mlx-lm where it names none."""
    return LIBRARIES[backends.of(environment)]


def unable(library: Library) -> str | None:
    """Why the library cannot be used here although it is installed; None where it can."""
    from mlxdiag.models.adapter import Skipped

    if library.backend == "torch":
        from mlxdiag.models.torch import library as torch_library

        loaded: object = torch_library.load()
    else:
        from mlxdiag.models.mlx import library as mlx_library

        loaded = mlx_library.load()
    return str(loaded) if isinstance(loaded, Skipped) else None
