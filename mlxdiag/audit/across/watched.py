"""One run of a schedule, with what a comparison wants to know of it: logits, and what each query saw."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from mlxdiag.audit.judge.trial import Trial
from mlxdiag.models.events import Seen, StepEvent
from mlxdiag.models.identity import AMBIGUOUS, UNKNOWN
from mlxdiag.replay.ops import Forward
from mlxdiag.replay.parity import Floats
from mlxdiag.replay.run import Runner
from mlxdiag.replay.stage import Group
from mlxdiag.traces.types import Entry, Output

Watch = Callable[[], AbstractContextManager[Any]]
"""Makes what surrounds one forward of the model."""
Key = tuple[int, int]
"""The sequence of a key, by its number, and its token code; see `replay.tape`."""


class Told(msgspec.Struct, frozen=True):
    """The logits of one row of one forward."""

    step: int
    phase: str
    seq: str
    positions: tuple[int, ...]
    """True positions of the row's real tokens."""
    logits: Floats
    """[n, V]"""


class Place(msgspec.Struct, frozen=True, order=True):
    """A forward by its place in the plan, and a row of it."""

    op: int
    row: int


class Watching(Runner):
    """Keeps the logits of every row, and what each layer's queries saw. To be mixed into a runner."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self.told: dict[Place, Told] = {}
        self.seen: dict[int, dict[int, Seen]] = {}
        """By place of the op, by layer."""
        self._looks: tuple[int, Watch] | None = None

    def look(self, op: int, watch: Watch) -> None:
        """Surround the model's call in the op at this place of the plan with what `watch` makes."""
        self._looks = op, watch

    def _forward(self, op: Forward, step: int) -> Entry:
        entry = super()._forward(op, step)
        event = next((e for e in self.events if isinstance(e, StepEvent)), None)
        calls = event.attention if event is not None else []
        self.seen[self.number] = {
            call.layer: call.seen for call in calls if call.layer is not None and call.seen is not None
        }
        return entry

    def _run_model(
        self, op: Forward, group: Group, ids: NDArray[Any]
    ) -> tuple[Floats | None, Exception | None]:
        if self._looks is None or self.number != self._looks[0]:
            return super()._run_model(op, group, ids)
        with self._looks[1]():
            return super()._run_model(op, group, ids)

    def _output(self, op: Forward, row: int, logits: Floats) -> Output:
        feed = op.feeds[row]
        self.told[Place(self.number, row)] = Told(
            step=op.step if op.step is not None else self.number,
            phase=op.phase,
            seq=feed.seq,
            positions=tuple(range(feed.start, feed.start + feed.tokens)),
            logits=logits[feed.left : feed.left + feed.tokens],
        )
        return super()._output(op, row, logits)


class Watched(Watching, Trial):
    """A scenario's run that is watched: it asks before it trims, as a server does."""


class WatchedReplay(Watching, Runner):
    """A replay that is watched."""


def views(seen: Seen, row: int) -> dict[int, frozenset[Key]]:
    """What each real query of a row saw: by its token code, every visible key.

    Queries that see a key which cannot be told by its content are left out; padding keeps its code.
    """
    mask = np.broadcast_to(seen.mask, (len(seen.key_seq), *seen.mask.shape[1:]))[row]
    keys = list(zip(seen.key_seq[row].tolist(), seen.key_pos[row].tolist(), strict=True))
    untold = np.isin(seen.key_seq[row], (UNKNOWN, AMBIGUOUS))
    found = {}
    for query in np.flatnonzero(seen.query_real[row]):
        visible = np.flatnonzero(mask[query])
        if not untold[visible].any():
            found[int(seen.query_pos[row, query])] = frozenset(keys[at] for at in visible)
    return found
