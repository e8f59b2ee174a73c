"""What workers do for an audit, by name: see `messages.Task`. Only here is the library touched."""

from __future__ import annotations

import hashlib
import importlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from mlxdiag.errors import UnjudgedError
from mlxdiag.models.adapter import Skipped

SOURCES = (".py", ".yaml")
LIBRARIES = ("mlx", "mlx-lm", "mlxdiag")


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
    """Import the library and all its families, so that no worker has to. Each is named before it is imported.

    `deadly`: modules that are left out, because importing them has ended a process, with how it ended.

    Raises:
        UnjudgedError: the library cannot be imported.
    """
    from mlxdiag.models.mlx import library, zoo

    loaded = library.load()
    if isinstance(loaded, Skipped):
        raise UnjudgedError(str(loaded))
    for name, how in (deadly or {}).items():
        library.forbid(name, how)
    for name in zoo.names():
        yield name
        library.family(name)
    yield ""
    if not zoo.families():
        raise UnjudgedError("the library holds no model family")
    importlib.import_module("mlxdiag.audit.judge.judge")  # with all that it needs


def describe(device: str | None) -> Iterator[Any]:
    """One `Described`. Raises what `devices.use` raises for a device that does not compute."""
    import mlx_lm

    import mlxdiag
    from mlxdiag.models.doctor import version
    from mlxdiag.models.mlx import devices, zoo
    from mlxdiag.models.mlx.instance import device_name

    if device is not None:
        devices.use(device)
    yield Described(
        families=zoo.families(),
        others=zoo.inventory().others,
        libraries={name: found for name in LIBRARIES if (found := version(name)) is not None},
        sources={"mlx-lm": source(mlx_lm.__file__), "mlxdiag": source(mlxdiag.__file__)},
        device=device_name(),
        root=str(Path(mlx_lm.__file__).resolve().parents[1]),
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
    """The cells of one family, in the order of `scenarios`."""
    from mlxdiag.audit.judge import judge
    from mlxdiag.audit.schedules.scenarios import named
    from mlxdiag.models.mlx import devices

    if device is not None:
        devices.use(device)
    yield from judge.audit_family(family, [named(name) for name in scenarios], seed)


def audit_apart(families: list[str], scenarios: list[str], seed: int) -> Iterator[Any]:
    """The cells of families that are split over several processes, in any order."""
    from mlxdiag.audit.distributed.distributed import audit_distributed

    yield from audit_distributed(families, seed, scenarios=scenarios)
