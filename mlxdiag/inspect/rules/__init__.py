"""Every rule there is, in one visible tuple."""

from __future__ import annotations

from mlxdiag.inspect.rule import Rule
from mlxdiag.inspect.rules.md1 import MD1
from mlxdiag.inspect.rules.md2 import MD2
from mlxdiag.inspect.rules.md3 import MD3
from mlxdiag.inspect.rules.md6 import MD6

RULES: tuple[type[Rule], ...] = (*MD1, *MD2, *MD3, *MD6)
