from __future__ import annotations

from typing import Any

import numpy as np

from mlxdiag.models.device import product


def test_a_device_that_multiplies_right_works() -> None:
    assert product("cpu", np.matmul).works


def test_reduced_precision_is_no_fault() -> None:
    def half(left: Any, right: Any) -> Any:
        return (left.astype(np.float16) @ right.astype(np.float16)).astype(np.float32)

    assert product("cuda", half).works


def test_one_wrong_number_is_a_fault() -> None:
    def wrong(left: Any, right: Any) -> Any:
        result = left @ right
        result[15, 15] += 1
        return result

    device = product("metal", wrong)
    assert not device.works
    assert device.reason == "a 16 x 16 product differs from numpy's"


def test_what_a_driver_throws_is_the_reason() -> None:
    def broken(left: Any, right: Any) -> Any:
        raise RuntimeError("CUDA error:\n no kernel image")

    assert product("cuda", broken).reason == "CUDA error: no kernel image"
