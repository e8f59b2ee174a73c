"""What a device is asked before it counts as working: one exact product. Shared by all backends."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

_HINTS = {
    ("cuda", True): 'pip install "mlx[cuda13]"',
    ("metal", True): "upgrade macOS to 14 or later, then reinstall mlx",
}


class Device(msgspec.Struct, frozen=True, kw_only=True):
    """A device of a backend, tried just now."""

    name: str
    works: bool
    reason: str = ""
    """What stands against it."""
    hint: str = ""


def product(name: str, multiply: Callable[[Any, Any], Any]) -> Device:
    """Try `multiply` on two float32 matrices [16, 16] of small integers.

    Every partial sum stays below 2^8, so that the product is exact in any float type of 8 mantissa bits or
    more: reduced-precision units pass and a device that computes nonsense does not.
    """
    import numpy as np

    left = (np.arange(256, dtype=np.float32).reshape(16, 16) * 7) % 5 - 2
    right = (np.arange(256, dtype=np.float32).reshape(16, 16) * 11) % 5 - 2
    try:
        result = np.asarray(multiply(left, right))
    except Exception as error:  # noqa: BLE001  drivers raise anything, and that is the finding
        return usable(name, works=False, reason=" ".join(str(error).split())[:200] or type(error).__name__)
    if result.shape != (16, 16) or not np.array_equal(result, left @ right):
        return usable(name, works=False, reason="a 16 x 16 product differs from numpy's")
    return usable(name, works=True)


def usable(name: str, *, works: bool, reason: str = "") -> Device:
    """A device with the hint for the machine at hand."""
    present = {"cuda": Path("/dev/nvidiactl").exists(), "metal": sys.platform == "darwin"}.get(name, False)
    return Device(
        name=name, works=works, reason=reason, hint="" if works else _HINTS.get((name, present), "")
    )
