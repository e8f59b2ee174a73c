"""One run of a scenario: the replay's runner, with what only an audit wants to know."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import msgspec
from numpy.typing import NDArray

from mlxdiag.audit.judge.tame import tamed
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

BUFFER_STEP = 4
"""Slots by which caches grow while a schedule runs. The library has 256, which no schedule fills: what is
wrong where a buffer grows would never be reached. A smaller one makes no difference to what caches answer,
and all families give the same cells with either."""


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
        """As `Runner.run`, on caches whose buffers grow by `BUFFER_STEP`."""
        with _small_buffers():
            return super().run()

    def _fresh(self) -> list[Any]:
        caches = super()._fresh()
        if self.drafts and not _can_trim(caches):
            raise RefusedError(
                f"speculative decoding requires a trimmable prompt cache (got {_names(caches)})"
            )
        return caches

    def _cut(self, op: Cut, caches: list[Any]) -> None:
        if op.phase == "trim" and not _can_trim(caches):
            raise RefusedError(f"can_trim_prompt_cache is false here ({_names(caches)}): nothing is trimmed")
        super()._cut(op, caches)

    def _event(self, op: Event) -> None:
        if op.phase == "quantize":
            caches = [cache for group in self._groups(op.seqs) for cache in group.caches]
            if not any(hasattr(cache, "to_quantized") for cache in caches):
                raise RefusedError("no cache of this family says that it can be quantised: none is")
        super()._event(op)

    def _shorten(self, caches: list[Any], tokens: int) -> None:
        if not _can_trim(caches):
            raise RefusedError(f"can_trim_prompt_cache is false of the stored prefix ({_names(caches)})")
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


@contextmanager
def _small_buffers() -> Iterator[None]:
    from mlx_lm.models import cache as library

    held: dict[Any, int] = {
        kind: vars(kind)["step"]
        for kind in vars(library).values()
        if isinstance(kind, type) and isinstance(vars(kind).get("step"), int)
    }
    try:
        for kind in held:
            kind.step = BUFFER_STEP
        yield
    finally:
        for kind, step in held.items():
            kind.step = step


def _can_trim(caches: list[Any]) -> bool:
    from mlx_lm.models.cache import can_trim_prompt_cache

    return bool(can_trim_prompt_cache(caches))


def _names(caches: list[Any]) -> str:
    return ", ".join(sorted({type(cache).__name__ for cache in caches if not cache.is_trimmable()}))
