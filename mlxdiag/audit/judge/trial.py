"""One run of a scenario: the replay's runner, with what only an audit wants to know."""

from __future__ import annotations

from typing import Any

import msgspec
from numpy.typing import NDArray

from mlxdiag.audit.judge.tame import tamed
from mlxdiag.audit.libraries import table
from mlxdiag.errors import UnjudgedError
from mlxdiag.models.adapter import Instance
from mlxdiag.replay import entries
from mlxdiag.replay.ops import Cut, Event, Feed, Forward, Op, Plan
from mlxdiag.replay.oracle import Reference
from mlxdiag.replay.parity import Compared, Floats
from mlxdiag.replay.prompts import Prompt
from mlxdiag.replay.run import Runner
from mlxdiag.replay.stage import Group
from mlxdiag.traces.types import Entry, Row, Trace


class RefusedError(ValueError):
    """The library says before anything is run that it cannot do this, as a server would see it."""


class Difference(msgspec.Struct, frozen=True):
    """Positions of one sequence whose logits are not the single pass's, in one forward."""

    step: int
    seq: str
    positions: tuple[int, ...]


class Trial(Runner):
    """Keeps every wrong position and whatever was raised; asks before it trims, as a server does."""

    def __init__(
        self,
        instance: Instance,
        plan: Plan,
        prompts: dict[str, Prompt],
        reference: Reference | None,
        tolerance: float,
    ) -> None:
        self.identity = instance.backend.identity()
        self.audited = table.of(instance)
        super().__init__(
            instance,
            plan,
            prompts,
            "strict",
            oracle=reference,
            tolerance=tolerance,
            identity=self.identity,
        )
        self.differences: list[Difference] = []
        self.step = 0

    def run(self) -> Trace:
        """As `Runner.run`, on caches whose buffers grow in small steps."""
        with self.audited.small_buffers():
            return super().run()

    def _fresh(self) -> list[Any]:
        caches = super()._fresh()
        if self.drafts and (why := self.audited.untrimmable(caches)) is not None:
            raise RefusedError(f"speculative decoding requires a trimmable prompt cache (got {why})")
        return caches

    def _cut(self, op: Cut, caches: list[Any]) -> None:
        asks = op.phase == "trim" or self.audited.asks_always
        if asks and (why := self.audited.untrimmable(caches)) is not None:
            raise RefusedError(f"{self.audited.asks_trim} is false here ({why}): nothing is trimmed")
        super()._cut(op, caches)

    def _event(self, op: Event) -> None:
        if op.phase == "quantize":
            caches = [cache for group in self._groups(op.seqs) for cache in group.caches]
            if not self.audited.quantises(caches):
                raise RefusedError("no cache of this family says that it can be quantised: none is")
        super()._event(op)

    def _shorten(self, caches: list[Any], tokens: int) -> None:
        if (why := self.audited.untrimmable(caches)) is not None:
            raise RefusedError(f"{self.audited.asks_trim} is false of the stored prefix ({why})")
        super()._shorten(caches, tokens)

    def _forward(self, op: Forward, step: int) -> Entry:
        self.step = step
        if op.batched and any(feed.left for feed in op.feeds) and any(feed.start for feed in op.feeds):
            raise UnjudgedError(f"step {step}: padding in front of rows that hold tokens; no batch takes it")
        try:
            return super()._forward(op, step)
        except BaseException as wild:  # noqa: BLE001  a family may fail in any way; the judge tells whose it is
            error = tamed(wild)
            self.stopped, self.raised = f"step {step}: {error}", error
            rows = [Row(seq=feed.seq, tokens=feed.tokens) for feed in op.feeds]
            return entries.failed(Entry(step=step, phase=op.phase, rows=rows), error)

    def _run_model(
        self, op: Forward, group: Group, ids: NDArray[Any]
    ) -> tuple[Floats | None, Exception | None]:
        ran = super()._run_model(op, group, ids)
        self.identity.settle()
        return ran

    def _read(self, logits: Any) -> Floats:
        return self.library.read(logits, *self.identity.arrays())

    def _apply(self, op: Op) -> Exception | None:
        try:
            return super()._apply(op)
        except BaseException as wild:  # noqa: BLE001  as above
            error = tamed(wild)
            self.stopped, self.raised = f"step {op.step}: {error}", error
            return error

    def _comparable(self, feed: Feed) -> bool:
        """Always: the reference is rounded as the caches are."""
        return True

    def _compare(self, op: Forward, feed: Feed, own: Floats) -> Compared | None:
        compared = super()._compare(op, feed, own)
        if compared is not None and compared.wrong:
            self.differences.append(Difference(self.step, feed.seq, compared.wrong))
        return compared
