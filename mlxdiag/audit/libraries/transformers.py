"""transformers as the audit knows it.

A row of the table is a family of the zoo, or one with another attention implementation: `gemma3_text` runs
the library's own choice, `gemma3_text:eager` the other one.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import msgspec

from mlxdiag.audit.judge.sites import Sites, definition, line_with
from mlxdiag.audit.libraries.torch_sites import TorchSites
from mlxdiag.audit.schedules.scenarios import DRIVEN
from mlxdiag.audit.schedules.torch_schedules import QUANTIZED, STATIC
from mlxdiag.models.adapter import Instance, Skipped

if TYPE_CHECKING:
    from mlxdiag.audit.cell import Cell
    from mlxdiag.audit.judge.trial import Trial
    from mlxdiag.replay.ops import Plan

OTHER = "eager"
"""The implementation of the second row of a family: all have it, and most do not run it by default."""
METHODS = {"update": "update", "trim": "crop"}


class _Transformers:
    """See `library.Library`."""

    name = "transformers"
    package = "transformers"
    backend = "torch"
    versions = ("torch", "transformers")
    asks_trim = "is_croppable"
    asks_always = True

    def load(self) -> ModuleType | Skipped:
        """One thread for each process: two on a shared core wait for each other."""
        from mlxdiag.models.torch import library

        loaded = library.load()
        if not isinstance(loaded, Skipped):
            importlib.import_module("torch").set_num_threads(1)
        return loaded

    def parts(self) -> Iterator[str]:
        from mlxdiag.models.torch import library, zoo
        from mlxdiag.models.torch.families import CLASSES

        for name in sorted({*library.causal_types(), *CLASSES}):
            yield name
            library.family(name)
        zoo.inventory()

    def forbid(self, part: str, how: str) -> None:
        """Nothing can be left out: the library imports a family's module by itself, for its own tables."""

    def families(self) -> tuple[str, ...]:
        from mlxdiag.models.torch import library, zoo
        from mlxdiag.models.torch.zoo.rows import row

        found = []
        for family in zoo.families():
            found.append(family)
            classes = library.family(row(family).model_type)
            own = row(family).attention or ("sdpa" if _has_sdpa(classes) else OTHER)
            if own != OTHER:
                found.append(f"{family}:{OTHER}")
        return tuple(sorted(found))

    def others(self) -> dict[str, str]:
        from mlxdiag.models.torch import zoo

        held = zoo.inventory()
        return {**held.others, **{name: str(why) for name, why in held.broken.items()}}

    def use_device(self, name: str | None) -> str:
        from mlxdiag.models.torch import devices

        return devices.choose(name)

    def tiny(self, family: str, seed: int, device: str | None = None) -> Instance | Skipped:
        from mlxdiag.models.torch import zoo

        name, _, attention = family.partition(":")
        built = zoo.tiny(name, seed, attention=attention or None, device=device)
        return built if isinstance(built, Skipped) else msgspec.structs.replace(built, name=family)

    def broken(self, family: str) -> Skipped | None:
        """None: a family that cannot be imported is no row."""
        return None

    def staged(self, instance: Instance, scenario: str) -> Instance:
        kind = "static" if scenario in STATIC else "quantized" if scenario in QUANTIZED else None
        if kind is None:
            return instance
        replaced: Instance = msgspec.structs.replace(instance, cache_kind=kind)  # type: ignore[type-var]
        return replaced

    def trial(self, plan: Plan, scenario: str) -> type[Trial]:
        from mlxdiag.audit.judge.trial import Trial
        from mlxdiag.audit.libraries.torch_quantized import QuantizedTrial

        return QuantizedTrial if scenario in QUANTIZED else Trial

    def drive(self, cell: Cell, instance: Instance, noise: float, seed: int) -> bool:
        if cell.scenario not in DRIVEN:
            return False
        from mlxdiag.audit.libraries import torch_generation

        torch_generation.judge(cell, instance, noise, seed)
        return True

    def small_buffers(self) -> AbstractContextManager[None]:
        """As they are: dynamic layers grow by what they are given."""
        return nullcontext()

    def untrimmable(self, caches: list[Any]) -> str | None:
        """The classes of layers that cannot be cropped, where any says so."""
        (held,) = caches
        layers = {type(layer).__name__ for layer in held.cache.layers if not layer.is_croppable}
        # A convolution says no until it was fed: it does not know yet whether it will have a state.
        fed = held.total > 0
        return ", ".join(sorted(layers)) if fed and layers else None

    def quantises(self, caches: list[Any]) -> bool:
        """Always: whether it can is for the constructor of the cache to say."""
        return True

    def rounded(self, caches: list[Any], bits: int) -> list[Any] | None:
        from mlxdiag.audit.libraries.torch_quantized import rounded

        return rounded(caches)

    def sites(self, trial: Trial) -> Sites:
        return TorchSites(trial)

    def cache_method(self, instance: Instance, layers: list[int] | None, name: str) -> str:
        (held,) = instance.new_cache()
        wanted = set(layers or [])
        for index, layer in enumerate(held.cache.layers):
            if not wanted or wanted & set(instance.geometry.readers(index)):
                found = definition(getattr(type(layer), METHODS[name], None))
                if found:
                    return found
        return ""

    def rewinding(self) -> str:
        """In assisted decoding."""
        path = Path(str(importlib.import_module("transformers.generation.utils").__file__))
        return line_with(path, "cache.crop(")


def _has_sdpa(classes: Any) -> bool:
    return bool(getattr(getattr(classes, "model", None), "_supports_sdpa", False))


LIBRARY = _Transformers()
