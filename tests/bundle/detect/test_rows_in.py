# ruff: noqa: E501  a line of data is as long as it is
from __future__ import annotations

import pytest

from mlxdiag.bundle.detect.rows_in import private


@pytest.mark.parametrize(
    "line",
    [
        "[9906, 1917, 374]", "9906 1917 374", "9906|1917|374", "9906 - 1917 - 374", "9906/1917/374", "9906.1917.374",
        "array([9906, 1917])", "tokens: 9906, 1917, 374", "prompt [9906, 1917]", "t9906 t1917", "9906-19-17 37:26:41",
        "step=9906 step=1917 step=374",
    ],
)  # fmt: skip
def test_rows(line):
    assert private(line)


@pytest.mark.parametrize(
    "line",
    [
        "keys (1, 8, 671, 256)", "Shapes (300,128) and (1,64,300,300)", "bfloat16 [2560, 10240]", "2026-09-14 08:00:01,100 x 5",
        "offset=1030 idx=6 max_size=1024", "offset=[1167, 1055, 527, 112]", "0.12.345.678 I slot", "mlx 0.32.4", "2048/3120",
        "    12| chunk 512",
    ],
)  # fmt: skip
def test_shapes_times_and_versions_are_none(line):
    assert not private(line)
