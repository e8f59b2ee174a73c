"""What workers do for an audit, by name: see `messages.Task`. Only here is the library touched."""

from __future__ import annotations

import hashlib
import importlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from mlxdiag.audit.cell import LIBRARY
from mlxdiag.audit.libraries import table
from mlxdiag.errors import UnjudgedError
from mlxdiag.models.adapter import Skipped

SOURCES = (".py", ".yaml")


class Described(msgspec.Struct, frozen=True, kw_only=True):
    """The library that is audited."""

    families: tuple[str, ...]
    """The rows of the table, sorted."""
    others: dict[str, str] = {}
    """Modules that are no row, with the reason."""
    libraries: dict[str, str]
    sources: dict[str, str] = {}
    """By package: a hash of its files."""
    device: str
    root: str
    """The folder that holds the package, so that `mlx_lm/models/x.py` is found in it."""


def preload(deadly: dict[str, str] | None = None) -> Iterator[str]:
    """Import mlx-lm and all its families, so that no worker has to. Each is named before it is imported.

    `deadly`: parts that are left out, because importing them has ended a process, with how it ended.

    Raises:
        UnjudgedError: the library cannot be imported.
    """
    yield from _preload(LIBRARY, deadly or {})


def preload_transformers(deadly: dict[str, str] | None = None) -> Iterator[str]:
    """As `preload`. One thread per process, or two workers on two cores take three times as long."""
    yield from _preload("transformers", deadly or {})


def _preload(name: str, deadly: dict[str, str]) -> Iterator[str]:
    library = table.named(name)
    loaded = library.load()
    if isinstance(loaded, Skipped):
        raise UnjudgedError(str(loaded))
    for part, how in deadly.items():
        library.forbid(part, how)
    yield from library.parts()
    yield ""
    if not library.families():
        raise UnjudgedError("the library holds no model family")
    importlib.import_module("mlxdiag.audit.judge.judge")  # with all that it needs


def describe(device: str | None) -> Iterator[Any]:
    """One `Described` of mlx-lm. Raises what `Library.use_device` raises for one that does not compute."""
    yield _described(LIBRARY, device)


def describe_transformers(device: str | None) -> Iterator[Any]:
    """As `describe`."""
    yield _described("transformers", device)


def _described(name: str, device: str | None) -> Described:
    import mlxdiag
    from mlxdiag.models.doctor import version

    library = table.named(name)
    computing = library.use_device(device)
    package = str(importlib.import_module(library.package).__file__)
    return Described(
        families=library.families(),
        others=library.others(),
        libraries={
            name: found for name in (*library.versions, "mlxdiag") if (found := version(name)) is not None
        },
        sources={library.name: source(package), "mlxdiag": source(mlxdiag.__file__)},
        device=computing,
        root=str(Path(package).resolve().parents[1]),
    )


def source(init: str) -> str:
    """A short hash of the names and contents of all code and tables of a package, whose `__init__.py` is
    given."""
    root = Path(init).resolve().parent
    digest = hashlib.sha256()
    for file in sorted(path for path in root.rglob("*") if path.suffix in SOURCES and path.is_file()):
        data = file.read_bytes()
        digest.update(f"{file.relative_to(root).as_posix()}\0{len(data)}\0".encode() + data)
    return digest.hexdigest()[:16]


def audit(family: str, scenarios: list[str], seed: int, device: str | None) -> Iterator[Any]:
    """The cells of one family of mlx-lm, in the order of `scenarios`."""
    yield from _audit(LIBRARY, family, scenarios, seed, device)


def audit_transformers(family: str, scenarios: list[str], seed: int, device: str | None) -> Iterator[Any]:
    """As `audit`."""
    yield from _audit("transformers", family, scenarios, seed, device)


def _audit(library: str, family: str, scenarios: list[str], seed: int, device: str | None) -> Iterator[Any]:
    from mlxdiag.audit.judge import judge
    from mlxdiag.audit.schedules.scenarios import named

    if device is not None:
        table.named(library).use_device(device)
    yield from judge.audit_family(
        family, [named(name) for name in scenarios], seed, library=library, device=device
    )


def audit_apart(families: list[str], scenarios: list[str], seed: int) -> Iterator[Any]:
    """The cells of families of mlx-lm that are split over several processes, in any order."""
    yield from _audit_apart(LIBRARY, families, scenarios, seed)


def audit_apart_transformers(families: list[str], scenarios: list[str], seed: int) -> Iterator[Any]:
    """As `audit_apart`."""
    yield from _audit_apart("transformers", families, scenarios, seed)


def _audit_apart(library: str, families: list[str], scenarios: list[str], seed: int) -> Iterator[Any]:
    from mlxdiag.audit.distributed.distributed import audit_distributed

    yield from audit_distributed(families, seed, library=library, scenarios=scenarios)
