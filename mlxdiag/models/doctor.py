"""What is installed, which devices really compute, which adapters load, and what to install for the rest."""

from __future__ import annotations

import platform
import sys
from importlib import metadata

import msgspec

from mlxdiag.models import catalogue
from mlxdiag.models.adapter import Skipped
from mlxdiag.models.device import Device

_DISTRIBUTIONS = (
    "mlxdiag",
    "mlx",
    "mlx-metal",
    "mlx-cpu",
    "mlx-cuda-12",
    "mlx-cuda-13",
    "mlx-lm",
    "mlx-vlm",
    "torch",
    "transformers",
    "numpy",
    "safetensors",
    "msgspec",
)


class Backend(msgspec.Struct, frozen=True, kw_only=True):
    """One way to run models."""

    name: str
    works: bool
    devices: list[Device] = []
    reason: str = ""
    hint: str = ""


class Missing(msgspec.Struct, frozen=True, kw_only=True):
    """A model family that cannot be run here."""

    name: str
    reason: str
    hint: str = ""


class Examination(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that `mlxdiag doctor` reports."""

    python: str
    system: str
    libraries: dict[str, str]
    """Installed distributions and their versions."""
    backends: list[Backend]
    families: list[str] = []
    """Families of the catalogue whose code in mlx-lm can be imported."""
    missing: list[Missing] = []
    transformers_families: list[str] = []
    """Model types that transformers has a causal language model for; their code is imported as it is used."""


def examine() -> Examination:
    """Look around. Imports mlx-lm, and torch and transformers where both are installed."""
    families, missing = _families()
    torch, of_transformers = _torch()
    return Examination(
        python=sys.version.split()[0],
        system=f"{platform.system()} {platform.release()} {platform.machine()}",
        libraries={name: found for name in _DISTRIBUTIONS if (found := version(name)) is not None},
        backends=[_mlx(), torch],
        families=families,
        missing=missing,
        transformers_families=of_transformers,
    )


def version(distribution: str) -> str | None:
    """The installed version of a distribution, read from its metadata without importing it."""
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None


def _mlx() -> Backend:
    from mlxdiag.models.mlx.devices import devices

    return _computing("mlx", devices())


def _torch() -> tuple[Backend, list[str]]:
    """The backend, and the families of its library where that can be used."""
    from mlxdiag.models.torch import library
    from mlxdiag.models.torch.devices import devices

    if absent := [name for name in library.NEEDED if version(name) is None]:
        return _computing("torch", Skipped(f"{' and '.join(absent)} not installed", library.INSTALL)), []
    found = devices()
    usable = not isinstance(found, Skipped) and not isinstance(library.load(), Skipped)
    return _computing("torch", found), list(library.causal_types()) if usable else []


def _computing(name: str, found: list[Device] | Skipped) -> Backend:
    if isinstance(found, Skipped):
        return Backend(name=name, works=False, reason=found.reason, hint=found.hint)
    return Backend(name=name, works=any(device.works for device in found), devices=found)


def _families() -> tuple[list[str], list[Missing]]:
    from mlxdiag.models.mlx import library
    from mlxdiag.models.mlx.families import ABSENT

    loaded = library.load()
    if isinstance(loaded, Skipped):
        return [], []
    present, missing = [], []
    for name in dict.fromkeys((*catalogue.CATALOGUE, *ABSENT)):
        found = library.family(name)
        if isinstance(found, Skipped):
            missing.append(Missing(name=name, reason=found.reason, hint=found.hint))
        else:
            present.append(name)
    return present, missing
