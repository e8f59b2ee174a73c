"""What workers do for a comparison, by name: see `engine.messages.Task`. Here both libraries are loaded."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from mlxdiag.audit.libraries import table
from mlxdiag.errors import UnjudgedError
from mlxdiag.models.adapter import Skipped
from mlxdiag.models.convert.pair import MLX, TORCH

PRELOAD = "mlxdiag.audit.across.tasks:preload"
DESCRIBE = "mlxdiag.audit.across.tasks:describe"
COMPARE = "mlxdiag.audit.across.tasks:compare"


class Described(msgspec.Struct, frozen=True, kw_only=True):
    """The two libraries."""

    both: tuple[str, ...]
    apart: dict[str, tuple[str, str]]
    """See `rows.Families`."""
    libraries: dict[str, str]
    device: str
    roots: dict[str, str]
    """By package: the folder that holds it."""


def preload(deadly: dict[str, str] | None = None) -> Iterator[str]:
    """Import both libraries with their families. Raises UnjudgedError where one cannot be."""
    for name in (MLX, TORCH):
        library = table.named(name)
        loaded = library.load()
        if isinstance(loaded, Skipped):
            raise UnjudgedError(str(loaded))
        for part, how in (deadly or {}).items():
            library.forbid(part, how)
        yield from library.parts()
    yield ""
    importlib.import_module("mlxdiag.audit.across.judge")  # with all that it needs


def describe(device: str | None) -> Iterator[Any]:
    """One `Described`. Raises what `Library.use_device` raises for a device that does not compute."""
    from mlxdiag.audit.across.rows import families
    from mlxdiag.models.doctor import version

    used = {name: table.named(name).use_device(device) for name in (TORCH, MLX)}
    packages = [table.named(name).package for name in (TORCH, MLX)]
    names = ("mlxdiag", *(one for name in (MLX, TORCH) for one in table.named(name).versions))
    held = families()
    yield Described(
        both=held.both,
        apart=held.apart,
        libraries={name: found for name in names if (found := version(name)) is not None},
        device=" and ".join(dict.fromkeys(used.values())),
        roots={
            name: str(Path(str(importlib.import_module(name).__file__)).resolve().parents[1])
            for name in packages
        },
    )


def compare(family: str, scenarios: list[str], seed: int, device: str | None) -> Iterator[Any]:
    """The cells of one family, in the order of `scenarios`, then its row."""
    from mlxdiag.audit.across import judge
    from mlxdiag.audit.across.cell import SAVED, Row
    from mlxdiag.audit.schedules.scenarios import named

    for name in (TORCH, MLX):
        table.named(name).use_device(device)
    wanted = [SAVED if name == SAVED.name else named(name) for name in scenarios]
    for found in judge.compare_family(family, wanted, seed, device):
        kind = "row" if isinstance(found, Row) else "cell"
        yield {kind: msgspec.to_builtins(found)}
