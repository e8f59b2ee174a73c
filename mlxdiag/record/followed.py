"""The libraries whose programs can be recorded, and which of their modules matter.

Imports nothing but the standard library: the start-up hook asks it about every import of every program.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from mlxdiag.record.following import Following


class Library(NamedTuple):
    """One library; recorded from the moment at which all that it `needs` has been executed."""

    package: str
    needs: tuple[str, ...]
    later: tuple[str, ...] | None
    """Other modules that are followed once they are imported; None: all of the package."""
    distributions: tuple[str, ...]
    """Whose versions a trace tells."""
    digest: str
    """What the digest level does to its programs."""
    following: str
    """The module whose `follow(recorder, level)` puts the probe in and returns a `Following`."""

    def wants(self, name: str) -> bool:
        """Whether a module is to be told of."""
        if self.later is None:
            return name.startswith(f"{self.package}.")
        return name in self.needs or name in self.later

    def ready(self, told: str | None = None) -> bool:
        """Whether it can be followed. `told` has just been executed, although its import is not over."""
        return all(name == told or executed(name) for name in self.needs)

    def follow(self, *args: Any) -> Following:
        """Put its probe in."""
        following: Following = import_module(self.following).follow(*args)
        return following


MLX_LM = Library(
    package="mlx_lm",
    # Before any model, and before whatever makes or keeps a prompt cache.
    needs=("mlx_lm.models.cache",),
    later=None,
    distributions=("mlx", "mlx-lm"),
    digest="two rows of each mask were summed: a few outputs more in the program's own graph",
    following="mlxdiag.record.mlx.following",
)
TRANSFORMERS = Library(
    package="transformers",
    # Where models and generation come from. Tokenizers, which mlx-lm takes from here, do without both.
    needs=("transformers.modeling_utils", "transformers.generation.utils"),
    later=("transformers.cli.serving.utils",),
    distributions=("torch", "transformers"),
    digest="no digests: masks of a torch program could only be read at once, so shapes were recorded",
    following="mlxdiag.record.torch.following",
)
LIBRARIES = (MLX_LM, TRANSFORMERS)
PREFIXES = tuple(f"{library.package}." for library in LIBRARIES)


def library_of(name: str) -> Library | None:
    """The library that wants to be told of a module."""
    return next((library for library in LIBRARIES if library.wants(name)), None)


def executed(name: str) -> bool:
    """Whether a module has been imported to its end."""
    module = sys.modules.get(name)
    return module is not None and not getattr(getattr(module, "__spec__", None), "_initializing", False)


def loaded(library: Library) -> Sequence[tuple[ModuleType, str]]:
    """Modules of a library that have been imported already."""
    names = [name for name in list(sys.modules) if library.wants(name) and executed(name)]
    return [(sys.modules[name], name) for name in names]
