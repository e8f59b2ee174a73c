"""Logits of the replay against the single pass of the same tokens."""

from __future__ import annotations

import msgspec
import numpy as np
from numpy.typing import NDArray

from mlxdiag.traces.types import Parity

Floats = NDArray[np.float32]

REFERENCE = "single-pass"
"""What the trace calls the oracle: one forward of the same tokens. Under a key cap each query is given the
keys that the cap left it, so that what is lost on purpose is no difference."""

RELATIVE_TOLERANCE = 1e-3
"""Of the spread of the reference logits. In float32 on CPU the noise of right schedules stays below 1.2e-4 of
it over every family measured, and the smallest real mask fault was 5.5e-3."""


class Compared(msgspec.Struct, frozen=True):
    """`count` positions compared; `max_abs` in logits; NaN counts as a difference of infinity."""

    count: int
    max_abs: float
    wrong: tuple[int, ...]
    """Positions that differ by more than the tolerance, in the order that they were compared in."""
    margin: float | None
    tolerance: float

    @property
    def first(self) -> int | None:
        """The first of the wrong positions."""
        return self.wrong[0] if self.wrong else None

    def record(self, reference: str) -> Parity:
        """As the trace writes it."""
        return Parity(
            reference=reference,
            max_abs=self.max_abs,
            first=self.first,
            margin=self.margin,
            tolerance=self.tolerance,
            compared=self.count,
        )


def spread(reference: Floats) -> float:
    """Standard deviation of the reference logits `[n, V]`, the unit of every tolerance."""
    return float(np.std(reference))


def compare(seen: Floats, reference: Floats, positions: list[int], tolerance: float) -> Compared:
    """Compare logits `[n, V]` with `reference[positions]`.

    `margin` is the reference's top-2 margin at the first differing position: a difference below half of it
    cannot change the greedy token there.
    """
    wanted = reference[np.asarray(positions, dtype=np.int64)]
    differences = np.abs(seen - wanted).max(axis=-1)
    differences = np.where(np.isnan(differences), np.inf, differences)
    wrong = np.flatnonzero(differences > tolerance).tolist()
    margin = None
    if wrong:
        top = np.partition(wanted[wrong[0]], -2)[-2:]
        margin = float(top[1] - top[0])
    worst = float(differences.max()) if len(positions) else 0.0
    return Compared(len(positions), worst, tuple(positions[at] for at in wrong), margin, tolerance)
