"""A tiny instance of any family of the library."""

from __future__ import annotations

from typing import Any

from mlxdiag.models.adapter import Skipped
from mlxdiag.models.torch import library
from mlxdiag.models.torch import tiny as tiny_models
from mlxdiag.models.torch.instance import TorchInstance
from mlxdiag.models.torch.zoo.rows import row, zoo


def tiny(
    family: str, seed: int = 0, attention: str | None = None, device: str | None = None
) -> TorchInstance | Skipped:
    """The family at a window of 8 with random float32 weights. Equal seeds give equal weights.

    `attention` names an implementation ("sdpa", "eager"); None takes the family's own default. Returns
    Skipped, with a reason, for a family that the library lacks or that cannot run so.
    """
    entry = row(family)
    classes = library.family(entry.model_type)
    if isinstance(classes, Skipped):
        return classes
    return tiny_models.instance(
        classes,
        tiny_config(family, classes),
        seed=seed,
        attention=attention or entry.attention,
        device=device,
        name=family,
    )


def tiny_config(family: str, classes: library.Classes) -> dict[str, Any]:
    """The fields that `tiny` gives to the config class."""
    entry = row(family)
    known = library.defaults(classes)
    base = {key: value for key, value in zoo().base.items() if key in known and key not in entry.drop}
    base |= {key: value for key, value in zoo().caps.items() if known.get(key)}
    return {**base, **entry.set}
