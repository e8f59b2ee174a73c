"""MD6: tokens."""

from __future__ import annotations

from mlxdiag.inspect.rule import Rule

MD6: tuple[type[Rule], ...] = ()
