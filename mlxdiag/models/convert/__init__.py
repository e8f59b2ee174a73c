"""One model as two checkpoints: written as the users of transformers and those of mlx-lm have it.

transformers 5 writes a config.json that the hub's published ones do not look like, and mlx-lm reads the
published form. What stands between the two forms is here, once: general rules in `published.py`, and what a
family needs besides in `families.yaml`, each entry with its reason. Weights keep their values; only names and
layouts change.
"""

from __future__ import annotations

from mlxdiag.models.convert.pair import Apart, Pair, exact, of_instance, tiny

__all__ = ["Apart", "Pair", "exact", "of_instance", "tiny"]
