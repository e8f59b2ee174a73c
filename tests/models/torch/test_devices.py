from __future__ import annotations

import sys

import pytest
import torch

from mlxdiag.errors import UnjudgedError, UsageError
from mlxdiag.models.adapter import Skipped
from mlxdiag.models.torch.devices import choose, devices


def test_the_cpu_always_computes_and_gpus_come_first() -> None:
    found = devices()
    assert not isinstance(found, Skipped)
    assert [device.name for device in found] == ["cuda", "mps", "cpu"]
    assert found[-1].works
    assert found[0].works == torch.cuda.is_available()


def test_without_a_name_the_cpu_is_taken() -> None:
    assert choose() == choose("cpu") == "cpu"


def test_a_device_that_is_not_there_says_so() -> None:
    absent, why = (
        ("mps", "this machine has no Metal device")
        if torch.cuda.is_available()
        else ("cuda", "torch (was built without CUDA|finds no CUDA device)")
    )
    with pytest.raises(UnjudgedError, match=f"{absent} does not compute: {why}"):
        choose(absent)


def test_an_unknown_device_names_the_known_ones() -> None:
    with pytest.raises(UsageError, match="torch has no device tpu here; known: cuda, mps, cpu"):
        choose("tpu")


def test_a_device_that_computes_nonsense_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    real = torch.Tensor.__matmul__
    monkeypatch.setattr(torch.Tensor, "__matmul__", lambda one, other: real(one, other) + 1)
    with pytest.raises(UnjudgedError, match="cpu does not compute: a 16 x 16 product differs"):
        choose("cpu")


def test_without_torch_there_are_no_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    assert isinstance(devices(), Skipped)
    with pytest.raises(UnjudgedError, match="torch cannot be imported"):
        choose("cpu")


def test_no_product_is_rounded_to_tf32_from_then_on() -> None:
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
    choose("cpu")
    assert (torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32) == (False, False)
