"""MD3, visibility: which positions each query really attended."""

from __future__ import annotations

from mlxdiag.inspect.rule import Rule
from mlxdiag.inspect.rules.md3.counts import EmptyRow, WindowCount
from mlxdiag.inspect.rules.md3.positions import (
    ForeignKeyVisible,
    FutureVisible,
    KeyMissing,
    PaddingVisible,
)

MD3: tuple[type[Rule], ...] = (
    EmptyRow,
    WindowCount,
    FutureVisible,
    PaddingVisible,
    KeyMissing,
    ForeignKeyVisible,
)
