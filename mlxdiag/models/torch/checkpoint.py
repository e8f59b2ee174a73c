"""A real checkpoint: a local directory of config.json and model*.safetensors, by transformers' own loader."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from mlxdiag.errors import UnjudgedError, UnreadableError
from mlxdiag.models import special_ids
from mlxdiag.models.adapter import Skipped
from mlxdiag.models.configs.directory import check_files, check_weights, read_config
from mlxdiag.models.torch import devices, library
from mlxdiag.models.torch.families import EXPERTS
from mlxdiag.models.torch.geometry import both_ways, of_config
from mlxdiag.models.torch.instance import TorchInstance, of_model
from mlxdiag.models.torch.tiny import head

_LESS = {
    "F16": "float16",
    "BF16": "bfloat16",
    "F8_E4M3": "float8_e4m3fn",
    "F8_E5M2": "float8_e5m2",
}
"""Types of less precision than float32, as safetensors and as torch call them."""
_NAMED = 3
"""Weights that a message names before it only counts them."""


def load(directory: str | Path, attention: str | None = None, device: str | None = None) -> TorchInstance:
    """Load a checkpoint strictly; nothing is ever downloaded, and code beside it is never run.

    Floats of half precision are computed in float32, where noise and faults can be told apart; the geometry's
    notes say so. `attention`: an implementation; None takes the library's choice.

    Raises UnreadableError where the directory is no whole checkpoint (no config, no weights, a missing shard,
    weights that are missing, surplus or of the wrong shape), UnjudgedError where transformers or the family
    is not installed, or the device is not there or too small; UsageError for an unknown device.
    """
    path = Path(directory)
    config = read_config(path)
    check_weights(path, "transformers")
    classes = library.family_of(config)
    if isinstance(classes, Skipped):
        raise UnjudgedError(f"{path}: {classes}")
    check_files(path)
    chosen = devices.choose(device)
    model = _load(path, classes, attention)
    _place(model, chosen, path)
    geometry = of_config(model.config)
    if (why := both_ways(model.config)) is not None:
        raise UnjudgedError(f"{path}/config.json: {why}")
    told = msgspec.structs.replace(
        geometry,
        tokens=special_ids.of_directory(path, geometry.tokens),
        notes=geometry.notes + _halves(path),
    )
    projection = None if classes.has_head else head(model, 0).to(chosen)
    return of_model(model, name=path.resolve().name, geometry=told, device=chosen, head=projection)


def _load(path: Path, classes: library.Classes, attention: str | None) -> Any:
    import torch

    given = {} if attention is None else {"attn_implementation": attention}
    meant = _config(path, classes)
    try:
        with library.quiet():
            model, info = classes.model.from_pretrained(
                str(path),
                dtype=torch.float32,
                local_files_only=True,
                trust_remote_code=False,
                use_safetensors=True,
                output_loading_info=True,
                **given,
            )
            if model._can_set_experts_implementation():
                model.set_experts_implementation(EXPERTS)
    except MemoryError:
        raise UnjudgedError(f"{path}: the weights do not fit into this machine's memory") from None
    except ImportError as error:
        raise UnjudgedError(f"{path}: transformers lacks a package for it: {_said(error)}") from None
    except Exception as error:  # noqa: BLE001  loaders raise whatever config and weights provoke
        if "ignore_mismatched_sizes" in str(error):
            _require_shapes(path, classes, meant)
        raise UnreadableError(f"{path}: transformers cannot load it: {_said(error)}") from None
    _complete(path, info)
    return model.eval()


def _config(path: Path, classes: library.Classes) -> Any:
    """The config object. Raises UnreadableError, which names the file, where its class refuses it."""
    try:
        with library.quiet():
            return classes.model.config_class.from_pretrained(str(path), local_files_only=True)
    except Exception as error:  # noqa: BLE001  a config class may refuse a config in any way
        raise UnreadableError(f"{path}/config.json: transformers refuses it: {_said(error)}") from None


def _complete(path: Path, info: Any) -> None:
    """A weight that is missing would be drawn at random, and a surplus one be left out, both in silence."""
    for field, what in (("missing_keys", "lacks"), ("unexpected_keys", "has surplus")):
        if names := sorted(info.get(field) or ()):
            raise UnreadableError(f"{path} {what} weights ({len(names)}): {_listed(names)}")


def _require_shapes(path: Path, classes: library.Classes, config: Any) -> None:
    """Raises UnreadableError, with the weights whose shape the config contradicts: the library names them in
    a table that it prints. Nothing is allocated: a config may mean more than there is memory.
    """
    import torch

    with torch.device("meta"), library.quiet():
        model = classes.model._from_config(config, dtype=torch.float32)
    meant = {name: list(weight.shape) for name, weight in model.state_dict().items()}
    wrong = [
        f"{name} {stored} where the config means {meant[name]}"
        for name, (_, stored) in sorted(_stored(path).items())
        if meant.get(name, stored) != stored
    ]
    if wrong:
        raise UnreadableError(f"{path} has misshapen weights ({len(wrong)}): {_listed(wrong)}")


def _listed(names: list[str]) -> str:
    return ", ".join(names[:_NAMED]) + (", ..." if len(names) > _NAMED else "")


def _said(error: BaseException) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"


def _place(model: Any, device: str, path: Path) -> None:
    """Raises UnjudgedError where the device is too small."""
    import torch

    try:
        model.to(device)
    except (torch.OutOfMemoryError, MemoryError) as error:
        text = " ".join(str(error).split())[:200]
        raise UnjudgedError(f"{path}: {device} has too little memory: {text}") from None


def _halves(path: Path) -> tuple[str, ...]:
    """A note on weights that are stored with less precision than they are computed with."""
    stored = {kind for kind, _ in _stored(path).values()}
    halves = sorted(_LESS[kind] for kind in stored & _LESS.keys())
    return (f"weights stored in {' and '.join(halves)} are computed in float32",) if halves else ()


def _stored(path: Path) -> dict[str, tuple[str, list[int]]]:
    """Type and shape of every weight in the files, by name."""
    from safetensors import safe_open

    found: dict[str, tuple[str, list[int]]] = {}
    for file in path.glob("model*.safetensors"):
        with safe_open(file, "np") as weights:
            for name in weights.keys():  # noqa: SIM118
                held = weights.get_slice(name)
                found[name] = held.get_dtype(), list(held.get_shape())
    return found
