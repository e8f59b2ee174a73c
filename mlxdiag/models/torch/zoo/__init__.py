"""Every family of the library as a tiny, fast instance: the library's own classes at a window of 8.

An instance's geometry says what its *config* means, never what the library does with it. Nearly everything
comes from the config classes by the names of their fields; what does not is in `zoo.yaml`, with the reason.
"""

from __future__ import annotations

from mlxdiag.models.torch.zoo.build import tiny
from mlxdiag.models.torch.zoo.inventory import Inventory, families, inventory

__all__ = ["Inventory", "families", "inventory", "tiny"]
