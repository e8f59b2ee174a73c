"""mlx-lm as the audit knows it."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from mlxdiag.audit.judge.sites import Sites, definition, line_with
from mlxdiag.audit.schedules.schedules import CAPPED
from mlxdiag.models.adapter import Instance, Skipped

if TYPE_CHECKING:
    from mlxdiag.audit.cell import Cell
    from mlxdiag.audit.judge.trial import Trial
    from mlxdiag.replay.ops import Plan

BUFFER_STEP = 4
"""Slots by which caches grow while a schedule runs. The library has 256, which no schedule fills: what is
wrong where a buffer grows would never be reached. A smaller one makes no difference to what caches answer,
and all families give the same cells with either."""
METHODS = {"update": "update_and_fetch", "trim": "trim"}


class _MlxLm:
    """See `library.Library`."""

    name = "mlx-lm"
    package = "mlx_lm"
    backend = "mlx"
    versions = ("mlx", "mlx-lm")
    asks_trim = "can_trim_prompt_cache"
    asks_always = False

    def load(self) -> ModuleType | Skipped:
        from mlxdiag.models.mlx import library

        return library.load()

    def parts(self) -> Iterator[str]:
        from mlxdiag.models.mlx import library, zoo

        for name in zoo.names():
            yield name
            library.family(name)

    def forbid(self, part: str, how: str) -> None:
        from mlxdiag.models.mlx import library

        library.forbid(part, how)

    def families(self) -> tuple[str, ...]:
        from mlxdiag.models.mlx import zoo

        return zoo.families()

    def others(self) -> dict[str, str]:
        from mlxdiag.models.mlx import zoo

        return zoo.inventory().others

    def use_device(self, name: str | None) -> str:
        from mlxdiag.models.mlx import devices
        from mlxdiag.models.mlx.instance import device_name

        if name is not None:
            devices.use(name)
        return device_name()

    def tiny(self, family: str, seed: int, device: str | None = None) -> Instance | Skipped:
        """`device` is the whole process's, and was chosen before."""
        from mlxdiag.models.mlx import zoo

        return zoo.tiny(family, seed)

    def broken(self, family: str) -> Skipped | None:
        from mlxdiag.models.mlx import library, zoo

        found = zoo.broken(family)
        # Where a package is missing, the library is not to blame.
        return found if isinstance(found, library.Broken) else None

    def staged(self, instance: Instance, scenario: str) -> Instance:
        """As it is: what a scenario needs is made of the library's own caches while it runs."""
        return instance

    def trial(self, plan: Plan, scenario: str) -> type[Trial]:
        from mlxdiag.audit.judge.capped import CappedTrial
        from mlxdiag.audit.judge.capped_rows import CappedRowsTrial
        from mlxdiag.audit.judge.drafted import DraftedTrial
        from mlxdiag.audit.judge.trial import Trial

        if plan.scheduler.looped:
            return DraftedTrial
        if scenario not in CAPPED:
            return Trial
        return CappedTrial if len(plan.lengths) == 1 else CappedRowsTrial

    def drive(self, cell: Cell, instance: Instance, noise: float, seed: int) -> bool:
        """None: `DraftedTrial` looks into the loop while it runs."""
        return False

    @contextmanager
    def small_buffers(self) -> Iterator[None]:
        """Caches grow by `BUFFER_STEP`."""
        from mlx_lm.models import cache as library

        held: dict[Any, int] = {
            kind: vars(kind)["step"]
            for kind in vars(library).values()
            if isinstance(kind, type) and isinstance(vars(kind).get("step"), int)
        }
        try:
            for kind in held:
                kind.step = BUFFER_STEP
            yield
        finally:
            for kind, step in held.items():
                kind.step = step

    def untrimmable(self, caches: list[Any]) -> str | None:
        """The classes that cannot be trimmed, where `can_trim_prompt_cache` says no."""
        from mlx_lm.models.cache import can_trim_prompt_cache

        if can_trim_prompt_cache(caches):
            return None
        return ", ".join(sorted({type(cache).__name__ for cache in caches if not cache.is_trimmable()}))

    def quantises(self, caches: list[Any]) -> bool:
        return any(hasattr(cache, "to_quantized") for cache in caches)

    def rounded(self, caches: list[Any], bits: int) -> list[Any] | None:
        from mlxdiag.audit.judge.rounded import converted

        try:
            return converted(caches, bits)
        except (NotImplementedError, ValueError):
            # The keys' size does not divide into groups: the schedule itself will say so.
            return None

    def sites(self, trial: Trial) -> Sites:
        return Sites(trial)

    def cache_method(self, instance: Instance, layers: list[int] | None, name: str) -> str:
        caches = instance.new_cache()
        wanted = set(layers or [])
        for position, cache in enumerate(caches):
            if not wanted or wanted & set(instance.cache_layers(position)):
                for member in getattr(cache, "caches", (cache,)):
                    found = definition(getattr(type(member), METHODS[name], None))
                    if found:
                        return found
        return ""

    def rewinding(self) -> str:
        """In `mlx_lm.generate`, which does not look at what was taken."""
        path = Path(str(importlib.import_module("mlx_lm.generate").__file__))
        return line_with(path, "trim_prompt_cache(model_cache")


LIBRARY = _MlxLm()
