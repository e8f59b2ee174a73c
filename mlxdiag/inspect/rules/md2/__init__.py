"""MD2: cache and position."""

from __future__ import annotations

from mlxdiag.inspect.rule import Rule

MD2: tuple[type[Rule], ...] = ()
