"""MD4, numbers: what came out."""

from __future__ import annotations

from mlxdiag.inspect.rule import Rule
from mlxdiag.inspect.rules.md4.finite import NonFinite
from mlxdiag.inspect.rules.md4.parity import LibraryParityBroken, ParityBroken
from mlxdiag.inspect.rules.md4.sampled import SampledRowIsPadding

MD4: tuple[type[Rule], ...] = (NonFinite, ParityBroken, LibraryParityBroken, SampledRowIsPadding)
