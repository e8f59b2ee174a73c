"""How far apart two right answers of one family may lie: rounding alone, measured on the model itself."""

from __future__ import annotations

from typing import Any

import numpy as np

from mlxdiag.models.adapter import Instance
from mlxdiag.replay.parity import Floats, spread

STEP = 1.2e-7
"""Relative: about the last bit of a float32."""
LENGTH = 7
"""Tokens of the measured pass: below every window, so that no windowed mask and no ring has a part in it."""
FLOOR, CEILING = 2e-4, 1e-3
"""Of the spread of the logits. Right schedules of all families stay below 1.2e-4, and what a wrong mask moves
begins above 5e-3; between the two, a family whose rounding is larger is given more room."""
ROOM = 20.0
"""A schedule rounds differently in every product, the measurement moves each weight once."""


def floor(instance: Instance, seed: int = 0) -> float:
    """Largest difference of logits that weights moved by their last bit make, over the logits' spread.

    One forward without cache effects: fresh caches, one short pass, twice. The weights are put back.
    """
    ids = np.random.default_rng(seed).permutation(instance.vocab)[:LENGTH].astype(np.int32)[None]
    before = _logits(instance, ids)
    with instance.backend.shaken(instance, STEP, np.random.default_rng(seed + 1)):
        after = _logits(instance, ids)
    unit = spread(before)
    return float(np.abs(after - before).max()) / unit if unit > 0 else 0.0


def tolerance(noise: float) -> float:
    """What a parity may differ, as a fraction of the logits' spread: 20 times the noise, within bounds."""
    return min(max(ROOM * noise, FLOOR), CEILING)


def _logits(instance: Instance, ids: Any) -> Floats:
    logits: Floats = instance.backend.read(instance.forward(ids, instance.new_cache()))[0]
    return logits
