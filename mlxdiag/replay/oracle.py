"""The single pass: the same tokens, one forward, fresh caches, nobody's masks but the library's own."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from mlxdiag.errors import MlxdiagError, UnjudgedError
from mlxdiag.models.adapter import USE_LIBRARY, Chooser, Instance, LayerSpec
from mlxdiag.replay import stretched, tape
from mlxdiag.replay.ops import Adopt, Cut, Event, Evict, Feed, Forward, Op, Plan
from mlxdiag.replay.parity import Floats, spread
from mlxdiag.replay.prompts import Prompt

MAX_PASSES = 32
"""Rejected tokens need a pass of their own; beyond this many they are not compared, and a note says so."""


class Reference(Protocol):
    """What a run's logits are compared with."""

    def logits(self, seq: str, history: list[int]) -> tuple[Floats, float] | None:
        """Reference logits `[n, V]` of the token codes of `history`, and the spread they are measured in.

        None where there is no reference.
        """


class Oracle:
    """Reference logits by history, for every forward of a plan.

    Computed when made, without a probe in place: a probe would take the oracle's keys for the sequence's own.
    """

    def __init__(self, instance: Instance, plan: Plan, prompts: dict[str, Prompt]) -> None:
        self.instance = instance
        self.prompts = prompts
        self.live = live_keys(plan)
        self.final = histories(plan)
        self._passes: dict[str, list[tuple[list[int], Floats, float]]] = {}
        self.refused = 0
        """Forwards whose history is not compared because MAX_PASSES was reached."""
        self.capped = any(choice.cap for choice in plan.caches.values())
        self.quantised = any(isinstance(op, Event) and op.phase == "quantize" for op in plan.ops)
        self.limit = instance.backend.rotation_limit(instance)
        beyond = stretched.rows(plan, self.limit)
        self.stretched = sum(feed.tokens for place, feed in _fed(plan) if (place, feed.seq) in beyond)
        """Positions that no single pass can judge."""
        for seq, history in fed_histories(plan, beyond):
            self._prepare(seq, history)

    def logits(self, seq: str, history: list[int]) -> tuple[Floats, float] | None:
        """Reference logits `[n, V]` of the tokens of `history`, and the spread of their whole pass.

        None where MAX_PASSES was reached.
        """
        for known, logits, unit in self._passes.get(seq, []):
            if known[: len(history)] == history:
                return logits[: len(history)], unit
        return None

    def left_out(self) -> Iterator[str]:
        """Forwards that are not compared with the single pass, and why."""
        if self.refused:
            yield f"{self.refused} forwards with rejected tokens are not compared beyond {MAX_PASSES} passes"
        if self.stretched:
            yield (
                f"logits at {self.stretched} positions are not compared: beyond {self.limit} tokens this "
                "model's RoPE rotates by the length seen so far, so a single pass rotates the same keys "
                "otherwise"
            )
        if self.capped:
            yield (
                "logits under the library's own key cap are not compared: which keys are lost depends on how "
                "the tokens came"
            )
        if self.quantised:
            yield "logits of quantised caches are not compared: rounding alone moves them like a fault"

    def _prepare(self, seq: str, history: list[int]) -> None:
        if self.logits(seq, history) is not None:
            return
        passes = self._passes.setdefault(seq, [])
        if len(passes) >= MAX_PASSES:
            self.refused += 1
            return
        final = self.final.get(seq, [])
        full = (final if final[: len(history)] == history else history)[: self.limit]
        logits = self._run(seq, full)
        # Once a pass: over every step's own prefix it would cost the square of the schedule.
        passes.append((full, logits, spread(logits)))

    def _run(self, seq: str, history: list[int]) -> Floats:
        library = self.instance.backend
        ids = self.prompts[seq].of(history)[None]
        limits = self.live.get(seq, {})
        caches = self.instance.new_cache()
        given: Any = contextlib.nullcontext()
        if limits:
            mask = _live_mask(history, limits)
            given = library.caller_masks(self.instance, caches, _for_full_layers(mask))
        try:
            with given:
                logits: Floats = library.read(self.instance.forward(ids, caches))[0]
        except MlxdiagError:
            raise
        except Exception as error:  # a family may fail in any way, and then there is nothing to compare with
            said = f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
            raise UnjudgedError(
                f"{self.instance.name}: the library fails in its own pass of {len(history)} tokens: {said}"
            ) from error
        return logits


def histories(plan: Plan) -> dict[str, list[int]]:
    """The codes that each sequence holds when the plan ends."""
    tapes: dict[str, tape.Tape] = {}
    for op in plan.ops:
        replay_tape(op, tapes)
    return {seq: held.own for seq, held in tapes.items()}


def fed_histories(plan: Plan, beyond: Collection[tuple[int, str]] = ()) -> Iterator[tuple[str, list[int]]]:
    """For each row of each forward the trace holds: the sequence, and its own tokens up to the row's last.

    `beyond`: rows to leave out, by place in the plan and sequence.
    """
    tapes: dict[str, tape.Tape] = {}
    for place, op in enumerate(plan.ops):
        replay_tape(op, tapes)
        for feed in _feeds(op):
            if (place, feed.seq) not in beyond:
                yield feed.seq, tapes[feed.seq].own


def _fed(plan: Plan) -> Iterator[tuple[int, Feed]]:
    return ((place, feed) for place, op in enumerate(plan.ops) for feed in _feeds(op))


def _feeds(op: Op) -> Iterator[Feed]:
    """Rows with tokens, of a forward that the trace holds."""
    if isinstance(op, Forward) and op.assumed is None:
        yield from (feed for feed in op.feeds if feed.tokens)


def replay_tape(op: Op, tapes: dict[str, tape.Tape]) -> None:
    """Let one op act on the tapes, as the plan did when it was laid."""
    if isinstance(op, Forward):
        begin_again(op, tapes)
        for feed in op.feeds:
            tapes.setdefault(feed.seq, tape.Tape(feed.seq)).feed(feed.codes)
    elif isinstance(op, Cut):
        for seq in op.seqs:
            tapes[seq].cut(op.tokens, f"step {op.step}", op.kept.get("", 0))
    elif isinstance(op, Adopt):
        tapes[op.seq] = tape.Tape(op.seq)
        tapes[op.seq].adopt(op.entry - op.trimmed, op.matched)
    elif isinstance(op, Event) and op.phase == "finalize":
        for seq in op.seqs:
            tapes[seq].finalize()


def begin_again(op: Forward, tapes: dict[str, tape.Tape]) -> None:
    """Before a forward: what was fed before of the sequences that it holds whole counts no more."""
    for seq in op.again:
        if seq in tapes:
            tapes[seq].begin_again()


def live_keys(plan: Plan) -> dict[str, dict[int, tuple[int, int]]]:
    """Under a key cap: by sequence and token code, (keys dropped, sinks) when that token was fed."""
    limits: dict[str, dict[int, tuple[int, int]]] = {}
    start: dict[str, int] = {}
    sinks: dict[str, int] = {}
    tapes: dict[str, tape.Tape] = {}
    for op in plan.ops:
        replay_tape(op, tapes)
        if isinstance(op, Forward):
            for feed in op.feeds:
                if start.get(feed.seq):
                    gone = start[feed.seq], sinks[feed.seq]
                    limits.setdefault(feed.seq, {}).update((c, gone) for c in feed.codes if c != tape.PAD)
        elif isinstance(op, Evict):
            for seq in op.seqs:
                excess = tapes[seq].offset - start.get(seq, 0) - op.cap
                if excess > 0:
                    start[seq] = start.get(seq, 0) + excess
                    sinks[seq] = min(op.sinks, op.cap - 1)
    return limits


def _live_mask(history: list[int], limits: dict[int, tuple[int, int]]) -> NDArray[np.bool_]:
    """`[n, n]`: causal, without the keys that were gone when each query ran."""
    mask: NDArray[np.bool_] = np.tri(len(history), dtype=bool)
    for query, fed in enumerate(history):
        start, sinks = limits.get(fed, (0, 0))
        mask[query, sinks : start + sinks] = False
    return mask


def _for_full_layers(mask: NDArray[np.bool_]) -> Chooser:
    def choose(layer: LayerSpec) -> Any:
        return mask if layer.attention == "full" else USE_LIBRARY

    return choose
