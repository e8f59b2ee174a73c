"""Which devices MLX really computes on: a small product on each, compared with numpy, at run time."""

from __future__ import annotations

from typing import Any

from mlxdiag.errors import UnjudgedError, UsageError
from mlxdiag.models.adapter import Skipped
from mlxdiag.models.device import Device, product, usable
from mlxdiag.models.mlx import library


def devices() -> list[Device] | Skipped:
    """Metal, CUDA and CPU in this order, with what stands against the ones that do not compute."""
    loaded = library.load()
    if isinstance(loaded, Skipped):
        return loaded
    import mlx.core as mx

    return [
        _gpu("metal", mx.metal.is_available(), "MLX was built without Metal, or this machine has none"),
        _gpu("cuda", mx.cuda.is_available(), "MLX has no CUDA backend here"),
        _probe("cpu", mx.cpu),
    ]


def use(name: str) -> None:
    """Make a device MLX's default for this process.

    Raises UsageError for a device that MLX does not know, UnjudgedError for one that does not compute here.
    """
    found = devices()
    if isinstance(found, Skipped):
        raise UnjudgedError(str(found))
    device = next((device for device in found if device.name == name), None)
    if device is None:
        raise UsageError(f"MLX has no device {name}; known: {', '.join(device.name for device in found)}")
    if not device.works:
        raise UnjudgedError(str(Skipped(f"{name} does not compute: {device.reason}", device.hint)))
    import mlx.core as mx

    mx.set_default_device(mx.cpu if name == "cpu" else mx.gpu)


def _gpu(name: str, available: bool, otherwise: str) -> Device:
    import mlx.core as mx

    return _probe(name, mx.gpu) if available else usable(name, works=False, reason=otherwise)


def _probe(name: str, device: Any) -> Device:
    import mlx.core as mx
    import numpy as np

    def multiply(left: Any, right: Any) -> Any:
        with mx.stream(device):
            return np.array(mx.array(left) @ mx.array(right))

    return product(name, multiply)
