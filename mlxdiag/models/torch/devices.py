"""Which devices torch really computes on: a small product on each, compared with numpy, at run time."""

from __future__ import annotations

from typing import Any

from mlxdiag.errors import UnjudgedError, UsageError
from mlxdiag.models.adapter import Skipped
from mlxdiag.models.device import Device, product, usable
from mlxdiag.models.torch import library

NAMES = ("cuda", "mps", "cpu")
"""In the order of preference."""


def devices() -> list[Device] | Skipped:
    """CUDA, MPS and CPU in this order, with what stands against the ones that do not compute."""
    loaded = library.load()
    return loaded if isinstance(loaded, Skipped) else [_probe(name) for name in NAMES]


def choose(name: str | None = None) -> str:
    """The device of this name, once it has computed a product; where none is named, the first that does.

    float32 is float32 from then on: no product is rounded to TF32. Raises UsageError for a name that torch's
    adapter does not know, UnjudgedError for a device that is not there or does not compute.
    """
    if name is not None and name not in NAMES:
        raise UsageError(f"torch has no device {name} here; known: {', '.join(NAMES)}")
    loaded = library.load()
    if isinstance(loaded, Skipped):
        raise UnjudgedError(str(loaded))
    import torch

    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    device = _probe(name) if name is not None else _first()
    if not device.works:
        raise UnjudgedError(str(Skipped(f"{device.name} does not compute: {device.reason}", device.hint)))
    return device.name


def _first() -> Device:
    """The first that computes, the last one otherwise."""
    for name in NAMES:
        device = _probe(name)
        if device.works:
            break
    return device


def _probe(name: str) -> Device:
    import torch

    if name == "cuda" and not torch.cuda.is_available():
        why = "torch was built without CUDA" if torch.version.cuda is None else "torch finds no CUDA device"
        return usable(name, works=False, reason=why)
    if name == "mps" and not torch.backends.mps.is_available():
        return usable(
            name, works=False, reason="this machine has no Metal device, or torch was built without MPS"
        )

    def multiply(left: Any, right: Any) -> Any:
        one, other = (torch.from_numpy(matrix).to(name) for matrix in (left, right))
        return (one @ other).cpu().numpy()

    return product(name, multiply)
