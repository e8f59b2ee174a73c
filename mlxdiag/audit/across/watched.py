"""One run of a schedule, with what a comparison wants to know of it: logits, and what each query saw."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from mlxdiag.models.adapter import Instance
from mlxdiag.models.events import Seen, StepEvent
from mlxdiag.replay import tape
from mlxdiag.replay.ops import Feed, Forward, Op, Plan
from mlxdiag.replay.parity import Floats
from mlxdiag.replay.prompts import Prompt
from mlxdiag.replay.run import Runner
from mlxdiag.replay.stage import Group
from mlxdiag.traces.types import Entry, Output

Watch = Callable[[], AbstractContextManager[Any]]
"""Makes what surrounds one forward of the model."""


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


class Watched(Runner):
    """Keeps the logits of every row, and what each layer's queries saw.

    `at`, `watch`: what surrounds the model's call in the op at this place of the plan.
    """

    def __init__(
        self,
        instance: Instance,
        plan: Plan,
        prompts: dict[str, Prompt],
        policy: str = "strict",
        *,
        at: int | None = None,
        watch: Watch | None = None,
        **more: Any,
    ) -> None:
        super().__init__(instance, plan, prompts, policy, **more)
        self.told: dict[Place, Told] = {}
        self.seen: dict[int, dict[int, Seen]] = {}
        """By place of the op, by layer."""
        self._at = at
        self._watch = watch

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
        if self._watch is None or self.number != self._at:
            return super()._run_model(op, group, ids)
        with self._watch():
            return super()._run_model(op, group, ids)

    def _output(self, op: Forward, row: int, logits: Floats) -> Output:
        feed = op.feeds[row]
        self.told[Place(self.number, row)] = Told(
            step=op.step if op.step is not None else self.number,
            phase=op.phase,
            seq=feed.seq,
            positions=real_positions(feed),
            logits=logits[feed.left : feed.left + feed.tokens],
        )
        return super()._output(op, row, logits)


def real_positions(feed: Feed) -> tuple[int, ...]:
    """True positions of a row's real tokens, in order."""
    return tuple(range(feed.start, feed.start + feed.tokens))


def row_views(seen: Seen, row: int) -> dict[int, frozenset[tuple[int, int]]]:
    """What each real query of a row saw: by its token code, the (sequence, code) of every visible key.

    Keys that cannot be told by their content keep their negative sequence number.
    """
    mask = np.broadcast_to(seen.mask, (len(seen.key_seq), *seen.mask.shape[1:]))[row]
    keys = list(zip(seen.key_seq[row].tolist(), seen.key_pos[row].tolist(), strict=True))
    views = {}
    for query, real in enumerate(seen.query_real[row]):
        if real:
            visible = np.flatnonzero(mask[query])
            views[int(seen.query_pos[row, query])] = frozenset(keys[at] for at in visible)
    return views


def forwards(plan: Plan) -> list[tuple[int, Op]]:
    """The forwards of a plan, with their places in it."""
    return [(number, op) for number, op in enumerate(plan.ops) if isinstance(op, Forward)]


def position(code: int) -> int:
    """The true position of a token code."""
    return tape.position(code)
