"""A real checkpoint: a local directory of config.json and model*.safetensors, by transformers' own loader."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from mlxdiag.errors import UnjudgedError, UnreadableError
from mlxdiag.models import special_ids
from mlxdiag.models.adapter import Skipped
from mlxdiag.models.configs.directory import check_weights, read_config
from mlxdiag.models.torch import devices, library
from mlxdiag.models.torch.families import EXPERTS
from mlxdiag.models.torch.geometry import of_config
from mlxdiag.models.torch.instance import TorchInstance, of_model
from mlxdiag.models.torch.tiny import head

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
    chosen = devices.choose(device)
    model = _load(path, classes, attention)
    _place(model, chosen, path)
    geometry = of_config(model.config)
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
    except Exception as error:  # noqa: BLE001  loaders raise whatever config and weights provoke
        text = " ".join(str(error).split()) or type(error).__name__
        raise UnreadableError(f"{path}: the weights do not fit the config: {text[:300]}") from None
    _complete(path, info)
    return model.eval()


def _complete(path: Path, info: Any) -> None:
    """A weight that is missing would be drawn at random, and a surplus one be left out, both in silence."""
    for field, what in (
        ("missing_keys", "lacks"),
        ("unexpected_keys", "has surplus"),
        ("mismatched_keys", "has misshapen"),
    ):
        names = sorted(name if isinstance(name, str) else str(name[0]) for name in info.get(field) or ())
        if names:
            listed = ", ".join(names[:_NAMED]) + (", ..." if len(names) > _NAMED else "")
            raise UnreadableError(f"{path} {what} weights ({len(names)}): {listed}")


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
    from safetensors import safe_open

    stored = set()
    for file in path.glob("model*.safetensors"):
        with safe_open(file, "np") as weights:
            stored |= {weights.get_slice(name).get_dtype() for name in weights.keys()}  # noqa: SIM118
    halves = sorted({"F16": "float16", "BF16": "bfloat16"}[kind] for kind in stored & {"F16", "BF16"})
    return (f"weights stored in {' and '.join(halves)} are computed in float32",) if halves else ()
