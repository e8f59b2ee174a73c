"""What a planted fault does to the model's outputs: the measure of "observable" that asks no oracle.

The same scenario runs twice on the same weights and tokens, with the fault and without. MLX computes both
alike, so that any difference at a real token is the fault's.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mlxdiag.replay.prompts import PADDING_ID

DIFFERENT = 1e-3
"""Of the spread of the logits. Below it another path through the same sums (an array of a mask in place of
"causal") cannot be told from a fault by anybody."""


class Effect:
    """What a plant did while it was in place."""

    def __init__(self) -> None:
        self.acted = 0
        """How often it changed a mask, a key, an offset or a state from what the library had made of it."""
        self.outputs: list[tuple[NDArray[Any], Any]] = []
        """Each forward under the probe, which is what a scenario feeds: ids [B, L], and its logits [B, L, V]
        or, in their place, the error. The single passes that it is compared with are left out."""

    def note(self, changed: bool) -> None:
        self.acted += bool(changed)

    def moved(self, healthy: Effect) -> int:
        """Real tokens whose logits differ from those of the healthy run, which must have run the same
        scenario. A forward that failed, or that only one of the runs made, counts as one.
        """
        count = abs(len(self.outputs) - len(healthy.outputs))
        for (ids, seen), (right_ids, right) in zip(self.outputs, healthy.outputs, strict=False):
            count += _moved(ids, seen, right_ids, right)
        return count


def _moved(ids: NDArray[Any], seen: Any, right_ids: NDArray[Any], right: Any) -> int:
    if isinstance(seen, BaseException) or isinstance(right, BaseException):
        return int(type(seen) is not type(right))
    if seen.shape != right.shape or not np.array_equal(ids, right_ids):
        return 1
    real = ids != PADDING_ID
    difference = np.abs(seen - right).max(axis=-1)
    # NaN where the healthy run has none is a difference.
    within = difference <= DIFFERENT * float(np.nanstd(right)) + 1e-12
    return int((real & ~within).sum())
