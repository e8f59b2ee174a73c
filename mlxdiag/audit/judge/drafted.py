"""Speculative decoding as the library itself does it, with caches that the caller gives, as the server does.

`speculative_generate_step` drives: it prefills, drafts, verifies, rolls back and quantises. The model that it
is given hands every forward to the trial, which looks at it as at any other. The sampler says what draft and
target "find", so that drafts are taken and rejected as the schedule has it, and the tokens are the probe's
own. The draft is the model itself, on caches of its own, and nobody looks at it.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, zip_longest
from typing import Any

import msgspec
import numpy as np

from mlxdiag.audit.judge.tame import tamed
from mlxdiag.audit.judge.trial import RefusedError, Trial
from mlxdiag.errors import UnjudgedError
from mlxdiag.models.mlx.batching import GROUP
from mlxdiag.models.mlx.probe import CacheEvent
from mlxdiag.models.mlx.probe_tags import tag_of
from mlxdiag.models.mlx.store import Store
from mlxdiag.replay import entries
from mlxdiag.replay.ops import Adopt, Cut, Event, Forward, Op, Plan
from mlxdiag.replay.oracle import replay_tape
from mlxdiag.replay.parity import Floats
from mlxdiag.replay.prompts import Prompt
from mlxdiag.replay.run import Runner
from mlxdiag.replay.tape import Tape, code
from mlxdiag.traces.types import Entry, Row


class Rounds(msgspec.Struct, frozen=True):
    """Ids of what a schedule has happen, by round: what the draft proposes, and what the target finds, which
    is the drafts that are taken and then one of its own.
    """

    prompt: list[int]
    drafted: list[list[int]]
    found: list[list[int]]


def end(plan: Plan) -> int:
    """Ops of the plan that the library's loop does: all up to the last round."""
    return max((at for at, op in enumerate(plan.ops) if _speculates(op)), default=-1) + 1


def rounds(plan: Plan, prompt: Prompt) -> Rounds:
    """The rounds of a plan's drafted sequence, which comes first and alone.

    Raises:
        UnjudgedError: there is none, or one of another length than the plan's scheduler has.
    """
    ops = plan.ops[: end(plan)]
    seq = plan.forwards[0].feeds[0].seq
    tape = Tape(seq)
    before: list[int] = []
    drafted: list[list[int]] = []
    found: list[list[int]] = []
    for op, after in zip_longest(ops, ops[1:]):
        replay_tape(op, {seq: tape})
        if not isinstance(op, Forward):
            continue
        codes = op.feeds[0].codes
        if op.phase != "verify":
            before += codes
            continue
        if not drafted:
            before.append(codes[0])
        rejected = after.tokens if isinstance(after, Cut) else 0
        own = code(tape.real - rejected, tape.generation + bool(rejected))
        drafted.append(prompt.of(codes[1:]).tolist())
        found.append(prompt.of([*codes[1 : len(codes) - rejected], own]).tolist())
    if not drafted or any(len(tokens) != plan.scheduler.speculative for tokens in drafted):
        raise UnjudgedError(f"no rounds of {plan.scheduler.speculative} drafts each")
    return Rounds(prompt.of(before).tolist(), drafted, found)


class StoppedError(Exception):
    """The trial has seen the end of the run, inside the library's loop."""


class DraftedTrial(Trial):
    """Runs everything up to the last verified draft inside the library's loop, and the rest as ever."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._rounds = rounds(self.plan, self.prompts[self.plan.forwards[0].feeds[0].seq])
        self._end = end(self.plan)
        self._at = 0
        """Place of the op that the library's loop is to do next."""
        self._told: list[Entry] = []
        self._given: list[Any] = []
        """The caller's caches, of the target and of the draft."""
        self._held: list[Any] = []
        """The caches that the target was called with last."""
        self._logits: Any = None

    def _fresh(self) -> list[Any]:
        # Whether the caches can be trimmed is for the library to say here.
        return Runner._fresh(self)

    def _op(self, op: Op, step: int) -> Iterator[Entry]:
        if self.number >= self._end:
            yield from super()._op(op, step)
        elif self.number == 0:
            self._speculate()
            yield from self._told

    def _speculate(self) -> None:
        """The loop over its part of the plan; what it did is in `_told`."""
        first = next(op for op in self.plan.ops if isinstance(op, Forward))
        (seq,) = (feed.seq for feed in first.feeds)
        own = self._fresh()
        self._given = [*own, *self._fresh()]
        self.stage.enter(seq, own)
        try:
            self._ask_for_quantised(own)
            emitted = [int(token) for token, *_ in self._loop(seq)]
            self._catch_up()
            if emitted != list(chain.from_iterable(self._rounds.found)):
                raise RuntimeError("the loop emits other tokens than were found")
        except StoppedError:
            return
        except BaseException as wild:  # noqa: BLE001  as in `Trial`
            error = tamed(wild)
            op = self.plan.ops[min(self._at, self._end - 1)]
            self.stopped, self.raised = f"step {op.step}: {error}", error
            failed = Entry(step=op.step, phase=getattr(op, "phase", "verify"), rows=[Row(seq=seq)])
            self._told.append(entries.failed(failed, error))
        # The caller goes on with what its own list holds, whatever the loop has put in others.
        self.stage.enter(seq, self._given[: len(own)])

    def _ask_for_quantised(self, own: list[Any]) -> None:
        if self.plan.scheduler.kv_bits and not any(hasattr(cache, "to_quantized") for cache in own):
            raise RefusedError("no cache of this family says that it can be quantised: none is")

    def _loop(self, seq: str) -> Iterator[Any]:
        import mlx.core as mx
        from mlx_lm.generate import speculative_generate_step

        told = self._rounds
        scheduler = self.plan.scheduler
        steps: Iterator[Any] = speculative_generate_step(
            mx.array(told.prompt),
            _Target(self),
            _Draft(self),
            stream=mx.default_stream(mx.default_device()),
            num_draft_tokens=scheduler.speculative or 0,
            max_tokens=sum(map(len, told.found)),
            sampler=_Sampler(told),
            prompt_cache=self._given,
            kv_bits=scheduler.kv_bits,
            kv_group_size=GROUP,
            quantized_kv_start=0,
        )
        return steps

    def target(self, fed: Any, caches: list[Any]) -> Any:
        """A forward of the target, by the library's loop; its logits `[1, n, V]`."""
        self._catch_up()
        op = self.plan.ops[self._at] if self._at < self._end else None
        if not isinstance(op, Forward):
            raise RuntimeError(f"the loop feeds {fed.shape[1]} tokens after its last round")
        planned = self.prompts[op.feeds[0].seq].of(op.feeds[0].codes)
        if np.array(fed)[0].tolist() != planned.tolist():
            raise RuntimeError(
                f"the loop feeds other tokens than were taken: {fed.shape[1]} at step {op.step}"
            )
        group = self.stage.group_of(op.feeds[0].seq)
        assert group is not None
        group.caches = self._held = caches
        self._told.append(self._forward(op, op.step or 0))
        replay_tape(op, self.tapes)
        self._at += 1
        if self.stopped:
            raise StoppedError
        # What is trimmed or quantised from here on comes before the next forward.
        self.events.clear()
        return self._logits

    def _catch_up(self) -> None:
        """Tell of what the loop did to the target's caches since its last forward."""
        own = {tag_of(member).uid for cache in self._held for member in getattr(cache, "caches", (cache,))}
        seen = [event for event in self.events if isinstance(event, CacheEvent) and event.uid in own]
        while self._at < self._end and not isinstance(op := self.plan.ops[self._at], Forward):
            replay_tape(op, self.tapes)
            self._told.append(entries.event(op, op.step or 0, seen, self.instance))
            self._at += 1

    def _read(self, logits: Any) -> Floats:
        self._logits = logits
        return super()._read(logits)

    def _save(self, op: Event) -> None:
        """As the server stores a request: under all that was emitted, with the caches of both models."""
        assert self.store is not None
        (seq,) = op.seqs
        held = self.tapes[seq]
        key = self.prompts[seq].of([*held.own, code(held.real, held.generation)])
        self.store.insert(key, self._given)

    def _fetch(self, op: Adopt, store: Store) -> None:
        self._fetch_all(op, store)
        group = self.stage.group_of(op.seq)
        assert group is not None
        # The rest are the draft's.
        group.caches = group.caches[: len(self._given) // 2]


class _Target:
    """The audited model, as the loop sees it."""

    def __init__(self, trial: DraftedTrial) -> None:
        self._trial = trial

    def __getattr__(self, name: str) -> Any:
        return getattr(self._trial.instance.model, name)

    def __call__(self, fed: Any, cache: list[Any]) -> Any:
        return self._trial.target(fed, cache)


class _Draft:
    """The same model as its own draft, unseen."""

    def __init__(self, trial: DraftedTrial) -> None:
        self._trial = trial

    def __call__(self, fed: Any, cache: list[Any]) -> Any:
        with self._trial.probe.paused():
            return self._trial.instance.model(fed, cache=cache)


class _Sampler:
    """What the draft and the target find, one after the other. A draft is asked for one token at a time."""

    def __init__(self, told: Rounds) -> None:
        self._drafted = chain.from_iterable(told.drafted)
        self._found = iter(told.found)

    def __call__(self, logprobs: Any) -> Any:
        import mlx.core as mx

        if logprobs.shape[0] == 1:
            return mx.array([next(self._drafted)], mx.uint32)
        found = next(self._found)
        # Behind the first draft that is rejected nobody looks.
        return mx.array([*found, *[0] * (logprobs.shape[0] - len(found))], mx.uint32)


def _speculates(op: Op) -> bool:
    return isinstance(op, Forward | Cut) and op.phase in ("verify", "rollback")
