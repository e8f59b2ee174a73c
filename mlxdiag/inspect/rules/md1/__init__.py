"""MD1, geometry: what shapes alone prove."""

from __future__ import annotations

from mlxdiag.inspect.rule import Rule
from mlxdiag.inspect.rules.md1.capped import CappedWindowMask
from mlxdiag.inspect.rules.md1.causality import CausalityNotEnforced
from mlxdiag.inspect.rules.md1.discarded import MaskDiscarded
from mlxdiag.inspect.rules.md1.key_axis import MaskLongerThanKeys, MaskShorterThanKeys
from mlxdiag.inspect.rules.md1.key_padding import PaddingMaskTooShort
from mlxdiag.inspect.rules.md1.lengths import NonPositiveLength
from mlxdiag.inspect.rules.md1.oldest_keys import NewestKeysCut
from mlxdiag.inspect.rules.md1.query_axis import MaskQueryAxis
from mlxdiag.inspect.rules.md1.stale_offset import MaskFromOffsetNotLive, MaskFromStaleOffset
from mlxdiag.inspect.rules.md1.window import WindowNotEnforced

# In the order in which causes are told: what was dropped comes after why it did not fit.
MD1: tuple[type[Rule], ...] = (
    MaskShorterThanKeys,
    MaskLongerThanKeys,
    MaskQueryAxis,
    MaskFromStaleOffset,
    MaskFromOffsetNotLive,
    CappedWindowMask,
    WindowNotEnforced,
    CausalityNotEnforced,
    NewestKeysCut,
    PaddingMaskTooShort,
    NonPositiveLength,
    MaskDiscarded,
)
