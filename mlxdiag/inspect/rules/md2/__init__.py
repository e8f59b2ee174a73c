"""MD2: cache and position."""

from __future__ import annotations

from mlxdiag.inspect.rule import Rule
from mlxdiag.inspect.rules.md2.adoption import AdoptedLengthMismatch, MergeSizeMismatch
from mlxdiag.inspect.rules.md2.keys import ReturnedKeysBreakContract, StaleTailRead
from mlxdiag.inspect.rules.md2.kinds import CacheKindChanged, LayersDifferFromConfig
from mlxdiag.inspect.rules.md2.padding import PadsLeftInCache
from mlxdiag.inspect.rules.md2.positions import LayersOutOfStep, PositionMismatch
from mlxdiag.inspect.rules.md2.rollbacks import RollbackAcrossWindow
from mlxdiag.inspect.rules.md2.trims import TrimNotHonoured
from mlxdiag.inspect.rules.md2.windows import EvictedInsideWindow

MD2: tuple[type[Rule], ...] = (
    ReturnedKeysBreakContract,
    LayersOutOfStep,
    PositionMismatch,
    TrimNotHonoured,
    AdoptedLengthMismatch,
    PadsLeftInCache,
    EvictedInsideWindow,
    CacheKindChanged,
    RollbackAcrossWindow,
    MergeSizeMismatch,
    StaleTailRead,
    LayersDifferFromConfig,
)
