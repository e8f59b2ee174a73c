"""The libraries that can run a model, by name, and how each of them comes by an instance.

Nothing is imported of a library before it is asked for.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from mlxdiag.errors import UnjudgedError, UsageError
from mlxdiag.models.adapter import Instance, Skipped

NAMES = ("mlx", "torch")
_NEEDS = {"mlx": ("mlx", "mlx_lm"), "torch": ("torch", "transformers")}
_HINTS = {"mlx": "pip install mlx-lm", "torch": 'pip install "mlxdiag[torch]"'}


def parse(text: str) -> tuple[str, ...]:
    """`mlx`, `torch`, or both, comma-separated.

    Raises UsageError for any other name, and for none.
    """
    names = tuple(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
    for name in names or (text,):
        if name not in NAMES:
            raise UsageError(f"--backend: {name!r} is unknown; known: {', '.join(NAMES)}")
    return names


def of(environment: Mapping[str, Any] | None) -> str:
    """The backend of the library that a trace says it was recorded from; mlx where it says nothing."""
    libraries = (environment or {}).get("libraries")
    held = libraries if isinstance(libraries, Mapping) else {}
    return "torch" if "transformers" in held and "mlx-lm" not in held else "mlx"


def attention(environment: Mapping[str, Any] | None) -> str | None:
    """The attention implementation that a trace says its model ran with; None where it says nothing."""
    told = (environment or {}).get("attention")
    return told if isinstance(told, str) and told else None


def require(name: str) -> None:
    """Raises UnjudgedError where the backend's libraries are not installed."""
    for needed in _NEEDS[name]:
        if find_spec(needed) is None:
            raise UnjudgedError(f"{needed} is not installed, so nothing can be replayed; try: {_HINTS[name]}")


def family(name: str, config: Mapping[str, Any]) -> str | Skipped:
    """The model type of a config where the backend's library has it; why not, where it has not."""
    if name == "torch":
        from mlxdiag.models.torch import library as torch_library

        model_type = str(config.get("model_type"))
        found: Any = torch_library.family(model_type)
        return found if isinstance(found, Skipped) else model_type
    from mlxdiag.models.mlx import library

    outer = library.wrapped(config)
    found = library.family_of(outer)
    return found if isinstance(found, Skipped) else str(outer.get("model_type"))


def tiny(
    name: str,
    config: Mapping[str, Any],
    *,
    seed: int,
    window: int | None,
    positions: int,
    label: str,
    device: str | None = None,
    attention: str | None = None,
) -> Instance | Skipped:
    """A tiny random instance with the geometry of `config`; see `models.mlx.tiny.build`.

    `device`: as given to `use_device` before, by which MLX is already bound. `attention`: the implementation
    that a trace was recorded with; of mlx-lm there is one.
    """
    if name == "torch":
        from mlxdiag.models.torch import implementations
        from mlxdiag.models.torch import tiny as torch_tiny

        def build(chosen: str | None) -> Any:
            return torch_tiny.build(
                config,
                seed=seed,
                window=window,
                positions=positions,
                name=label,
                attention=chosen,
                device=device,
            )

        made: Instance | Skipped = implementations.like(attention, build)
        return made
    from mlxdiag.models.mlx import tiny as mlx_tiny

    return mlx_tiny.build(config, seed=seed, window=window, positions=positions, name=label)


def checkpoint(
    name: str, directory: Path, device: str | None = None, attention: str | None = None
) -> Instance:
    """The model in a checkpoint directory; `device` and `attention` as in `tiny`.

    Raises:
        UnreadableError: it cannot be read.
        UnjudgedError: the library lacks its family.
    """
    if name == "torch":
        from mlxdiag.models.torch import checkpoint as torch_checkpoint
        from mlxdiag.models.torch import implementations

        def load(chosen: str | None) -> Any:
            return torch_checkpoint.load(directory, attention=chosen, device=device)

        loaded: Instance = implementations.like(attention, load)
        return loaded
    from mlxdiag.models.mlx import checkpoint as mlx_checkpoint

    return mlx_checkpoint.load(directory)


def use_device(name: str, device: str) -> None:
    """Make the backend compute on this device in this process.

    Raises UsageError for a device that it does not know, UnjudgedError for one that does not compute here.
    """
    if name == "torch":
        from mlxdiag.models.torch import devices as torch_devices

        torch_devices.choose(device)
        return
    from mlxdiag.models.mlx import devices

    devices.use(device)
