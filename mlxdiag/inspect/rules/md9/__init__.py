"""MD9, the run: how the program went on, and how it ended."""

from __future__ import annotations

from mlxdiag.inspect.rule import Rule
from mlxdiag.inspect.rules.md9.crashed import Aborted, ShapeCrash
from mlxdiag.inspect.rules.md9.engine import GuardRefused, UnsupportedCombination
from mlxdiag.inspect.rules.md9.error import RecordedError
from mlxdiag.inspect.rules.md9.record import TraceIncomplete

MD9: tuple[type[Rule], ...] = (
    ShapeCrash,
    Aborted,
    TraceIncomplete,
    UnsupportedCombination,
    GuardRefused,
    RecordedError,
)
