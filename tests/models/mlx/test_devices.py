from __future__ import annotations

import sys

import pytest

from mlxdiag.errors import UnjudgedError, UsageError
from mlxdiag.models.adapter import Skipped
from mlxdiag.models.mlx.devices import devices, use


def _found() -> dict[str, bool]:
    found = devices()
    assert not isinstance(found, Skipped)
    return {device.name: device.works for device in found}


def test_the_cpu_always_computes_and_at_most_one_gpu_backend_does() -> None:
    found = _found()
    assert list(found) == ["metal", "cuda", "cpu"]
    assert found["cpu"]
    assert not (found["metal"] and found["cuda"])


def test_a_device_that_does_not_compute_cannot_be_chosen() -> None:
    broken = next(name for name, works in _found().items() if not works)
    with pytest.raises(UnjudgedError, match=f"{broken} does not compute: "):
        use(broken)


def test_an_unknown_device_names_the_known_ones() -> None:
    with pytest.raises(UsageError, match="MLX has no device tpu; known: metal, cuda, cpu"):
        use("tpu")


def test_the_chosen_device_becomes_the_default() -> None:
    import mlx.core as mx

    before = mx.default_device()
    try:
        use("cpu")
        assert mx.default_device() == mx.cpu
    finally:
        mx.set_default_device(before)


def test_without_mlx_there_are_no_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mlx.core", None)
    assert isinstance(devices(), Skipped)
    with pytest.raises(UnjudgedError, match="mlx cannot be imported"):
        use("cpu")
