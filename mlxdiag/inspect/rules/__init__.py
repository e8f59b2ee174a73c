"""Every rule there is, in one visible tuple."""

from __future__ import annotations

from mlxdiag.inspect.rule import Rule
from mlxdiag.inspect.rules.md1 import MD1
from mlxdiag.inspect.rules.md2 import MD2
from mlxdiag.inspect.rules.md3 import MD3
from mlxdiag.inspect.rules.md4 import MD4
from mlxdiag.inspect.rules.md5 import MD5
from mlxdiag.inspect.rules.md6 import MD6
from mlxdiag.inspect.rules.md9 import MD9

RULES: tuple[type[Rule], ...] = (*MD1, *MD2, *MD3, *MD4, *MD5, *MD6, *MD9)
OF_SEQUENCES: tuple[type[Rule], ...] = (*MD2, *MD6)
"""Rules that follow a sequence from entry to entry, and so may find fault where every call is healthy."""
