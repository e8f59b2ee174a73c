"""Several sequences under the library's own key cap: what is pinned for one alone is asked for in each row.

Logits are left out: rows lose keys at different times, and no single mask stands for them all.
"""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np

from mlxdiag.audit.judge.capped import lacking
from mlxdiag.audit.judge.trial import Trial
from mlxdiag.models.events import Seen, StepEvent
from mlxdiag.replay.entries import tape_positions
from mlxdiag.replay.ops import Feed, Forward
from mlxdiag.replay.parity import Floats
from mlxdiag.traces.types import Entry, Parity


class CappedRowsTrial(Trial):
    """Adds the pinned keys that a single token does not see to those that are missing."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        geometry = self.instance.geometry
        self._unbounded = {layer.index for layer in geometry.layers if not layer.window}
        self._families = {layer.family for layer in geometry.layers if not layer.window}

    def _parity(self, op: Forward, feed: Feed, own: Floats) -> Parity | None:
        return None

    def _forward(self, op: Forward, step: int) -> Entry:
        entry = super()._forward(op, step)
        if op.width != 1 or not entry.attention:
            return entry
        steps = (event for event in self.events if isinstance(event, StepEvent))
        calls = [call for event in steps for call in event.attention if call.layer in self._unbounded]
        lost = sorted({triple for call in calls for triple in self._lost(op, call.seen)})
        if not lost:
            return entry
        attention = [lacking(c, lost) if c.family in self._families else c for c in entry.attention]
        return msgspec.structs.replace(entry, attention=attention)

    def _lost(self, op: Forward, seen: Seen | None) -> list[tuple[int, int, int]]:
        """(row, query, position) of the pinned keys that a row's token does not see."""
        if seen is None:
            return []
        mask = np.broadcast_to(seen.mask, (len(op.feeds), *seen.mask.shape[1:]))
        found = []
        for row, feed in enumerate(op.feeds):
            own = seen.key_seq[row] == self.numbers[feed.seq]
            shown = set(tape_positions(seen.key_pos[row])[mask[row, 0] & own].tolist())
            pinned = range(min(self.plan.scheduler.keep or 0, feed.start))
            found += [(row, 0, position) for position in pinned if position not in shown]
        return found
