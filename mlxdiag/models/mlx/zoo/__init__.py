"""Every family of the library as a tiny, fast instance: the library's own code at a window of 8.

An instance's geometry says what its *config* means, as transformers defines it, never what the library does
with it. Nearly everything comes from the argument classes by the names of their fields (`fields.py`); what
does not is in `zoo.yaml`, with the reason.
"""

from __future__ import annotations

from mlxdiag.models.mlx.zoo.build import tiny
from mlxdiag.models.mlx.zoo.inventory import Inventory, broken, families, inventory, modules, names

__all__ = ["Inventory", "broken", "families", "inventory", "modules", "names", "tiny"]
