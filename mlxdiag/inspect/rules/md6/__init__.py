"""MD6: tokens."""

from __future__ import annotations

from mlxdiag.inspect.rule import Rule
from mlxdiag.inspect.rules.md6.circumstances import OnlyUnderConcurrency, OnsetAtEdge
from mlxdiag.inspect.rules.md6.collapse import ControlFlood, PadRun, ReservedCollapse, ZeroArgmaxRun
from mlxdiag.inspect.rules.md6.endings import EmptyAfterHit, EosNotInStopSet
from mlxdiag.inspect.rules.md6.loops import EngineLoopGuard, LongCycle, ShortCycle
from mlxdiag.inspect.rules.md6.speculation import AcceptanceCollapse

MD6: tuple[type[Rule], ...] = (
    ReservedCollapse,
    PadRun,
    ZeroArgmaxRun,
    ShortCycle,
    LongCycle,
    ControlFlood,
    OnsetAtEdge,
    EngineLoopGuard,
    EosNotInStopSet,
    AcceptanceCollapse,
    EmptyAfterHit,
    OnlyUnderConcurrency,
)
