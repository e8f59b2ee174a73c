"""The experiment: a plan on real model code under the probe, giving another trace.

Stateful, and the only place of the replay where arrays are touched.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from itertools import islice
from typing import Any

import numpy as np

from mlxdiag.errors import UnjudgedError
from mlxdiag.models.adapter import Instance
from mlxdiag.models.events import CacheEvent, Feeding, StepEvent
from mlxdiag.replay import entries, misfit, stretched
from mlxdiag.replay.consumer import Consumer
from mlxdiag.replay.ops import Adopt, Cut, Event, Evict, Feed, Forward, Op, Plan, Regroup
from mlxdiag.replay.oracle import Reference, begin_again, replay_tape
from mlxdiag.replay.padding import announced
from mlxdiag.replay.parity import REFERENCE, RELATIVE_TOLERANCE, Compared, Floats, compare
from mlxdiag.replay.prompts import Prompt
from mlxdiag.replay.stage import Group, Stage
from mlxdiag.replay.tape import Tape
from mlxdiag.traces.types import Entry, Output, Parity, Trace


class Runner:
    """Runs one plan under one misfit policy on one model."""

    def __init__(
        self,
        instance: Instance,
        plan: Plan,
        prompts: dict[str, Prompt],
        policy: str,
        *,
        oracle: Reference | None = None,
        level: str = "visibility",
        tolerance: float = RELATIVE_TOLERANCE,
        identity: Any = None,
    ) -> None:
        """`oracle`: compare logits with the single pass; None: leave parity out. `tolerance`: what may
        differ, as a fraction of the spread of the reference logits. `identity`: see `Probe`.
        """
        self.instance = instance
        self.library = instance.backend
        self.plan = plan
        self.prompts = prompts
        self.policy = policy
        self.oracle = oracle
        self.level = level
        self.tolerance = tolerance
        self.tapes: dict[str, Tape] = {}
        self.numbers = {seq: i for i, seq in enumerate(sorted(plan.lengths))}
        evictions = (op for op in plan.ops if isinstance(op, Evict))
        self.sinks = max((min(op.sinks, op.cap - 1) for op in evictions), default=0)
        """Keys that an eviction really leaves in front: fewer than its cap."""
        self.stage = Stage(self._fresh, self.library)
        self.cap = max((choice.cap for choice in plan.caches.values()), default=0)
        self.drafts = any(isinstance(op, Cut) and op.phase == "rollback" for op in plan.ops)
        """Whether tokens are fed that may be taken back."""
        self.number = 0
        """Place of the running op in the plan."""
        self.announced = announced(plan.ops)
        self.store = self.library.store() if plan.scheduler.store == "trie" else None
        self.claimed: int | None = None
        """Tokens that the store says it gave back to the running op."""
        self.consumer = Consumer(policy, instance.geometry, self.library)
        self.events: list[StepEvent | CacheEvent] = []
        self.probe = self.library.probe(self.events.append, level, self.consumer.attend, identity)
        self.quantised: set[str] = set()
        """Sequences whose caches were quantised: their logits differ by rounding alone."""
        limit = self.library.rotation_limit(instance) if oracle is not None else None
        self.stretched = stretched.rows(plan, limit)
        """Rows of forwards that no single pass can judge."""
        self.stopped: str | None = None
        """Why the run ended before its plan."""
        self.raised: Exception | None = None
        """What ended it, with its traceback."""

    def run(self) -> Trace:
        """The replayed trace. A crash ends it at the step that crashed, as it would end the program."""
        written = [self.instance.geometry.model_entry(self.instance.name)]
        with self.probe:
            self.probe.watch(self.instance.model, self.instance.geometry)
            for number, op in enumerate(self.plan.ops):
                self.number = number
                step = op.step if op.step is not None else number
                written += self._op(op, step)
                if self.stopped:
                    break
        written.append(Entry(phase="end", exit=1 if self.stopped else 0))
        return Trace(entries.header(self), written)

    def _op(self, op: Op, step: int) -> Iterator[Entry]:
        self.events.clear()
        if isinstance(op, Forward):
            yield self._forward(op, step)
            replay_tape(op, self.tapes)
            return
        error = self._apply(op)
        replay_tape(op, self.tapes)
        entry = entries.event(op, step, [e for e in self.events if isinstance(e, CacheEvent)], self.instance)
        if self.claimed is not None:
            entry, self.claimed = entries.restored(entry, self.claimed), None
        yield entry if error is None else entries.failed(entry, error)

    def _forward(self, op: Forward, step: int) -> Entry:
        begin_again(op, self.tapes)
        caches = self._caches(op)
        self.events.clear()
        self.consumer.decisions.clear()
        self.consumer.handed = bool(op.callers)
        codes = np.array([feed.codes for feed in op.feeds], dtype=np.int64)
        if codes.shape[1] != op.width:
            raise UnjudgedError(f"step {step}: rows of {[f.width for f in op.feeds]} columns in one forward")
        ids = np.stack([self.prompts[feed.seq].of(feed.codes) for feed in op.feeds])
        self.probe.feeding = Feeding(
            seq=[self.numbers[feed.seq] for feed in op.feeds], positions=codes, real=codes >= 0
        )
        logits, error = self._run_model(op, caches, ids)
        step_event = next((e for e in self.events if isinstance(e, StepEvent)), None)
        entry = entries.forward(op, step, step_event, self)
        if error is not None:
            self.stopped, self.raised = f"step {step}: {error}", error
            return entries.failed(entry, error)
        assert logits is not None
        if not op.cacheless:
            self.library.evaluate(caches)
        return entries.with_output(entry, [self._output(op, i, logits[i]) for i in range(len(op.feeds))])

    def _caches(self, op: Forward) -> Any:
        """What the model is given beside its tokens."""
        if not op.cacheless:
            for seq in op.anew:
                self.stage.leave(seq)
            return self.stage.for_forward(op, self.announced.get(self.number)).caches
        caches = self.library.without_cache()
        left = [feed.left for feed in op.feeds]
        if caches is not None and any(left):
            self.library.pad_left(caches, left)
        told = self.announced.get(self.number)
        if caches is not None and told is not None:
            self.library.pad_right(caches, list(told.lengths), list(told.right))
        return caches

    def _run_model(
        self, op: Forward, caches: Any, ids: np.ndarray[Any, Any]
    ) -> tuple[Floats | None, Exception | None]:
        handed: Any = contextlib.nullcontext()
        if op.callers or op.unmasked:
            handed = self.library.caller_masks(self.instance, caches, self.consumer.chooser(op))
        if op.columns is not None:
            self.library.padding_columns(caches, op.columns)
        try:
            with handed:
                logits = self.instance.forward(ids, caches)
            return self._read(logits), None
        except (ValueError, RuntimeError, TypeError, IndexError, misfit.GuardRaised) as error:
            # What MLX and the guard throw at a mask that does not fit is a result of the experiment.
            return None, error

    def _read(self, logits: Any) -> Floats:
        """Evaluate a forward: its logits as float32."""
        return self.library.read(logits)

    def _output(self, op: Forward, row: int, logits: Floats) -> Output:
        feed = op.feeds[row]
        real = slice(feed.left, feed.left + feed.tokens)
        own = logits[real]
        sampled = op.sampled[row] if row < len(op.sampled) else None
        at = sampled if sampled is not None else feed.left + feed.tokens - 1
        parity = self._parity(op, feed, own)
        return Output(
            row=sampled if sampled is not None else (at if op.phase == "decode" else None),
            argmax=int(np.argmax(logits[at])) if feed.width else None,
            nan=int(np.isnan(own).any(axis=-1).sum()),
            inf=int(np.isinf(own).any(axis=-1).sum()),
            margin=_margin(logits[at]) if feed.width else None,
            parity=parity,
        )

    def _parity(self, op: Forward, feed: Feed, own: Floats) -> Parity | None:
        compared = self._compare(op, feed, own)
        return compared.record(REFERENCE) if compared is not None else None

    def _compare(self, op: Forward, feed: Feed, own: Floats) -> Compared | None:
        """Logits `[tokens, V]` of a row's real tokens against the oracle's."""
        if self.oracle is None or not feed.tokens or op.assumed is not None or not self._comparable(feed):
            return None
        if (self.number, feed.seq) in self.stretched:
            return None
        held = self.tapes.get(feed.seq, Tape(feed.seq))
        history = held.own + [c for c in feed.codes if c >= 0]
        found = self.oracle.logits(feed.seq, history)
        if found is None:
            return None
        reference, unit = found
        positions = list(range(len(history) - feed.tokens, len(history)))
        return compare(own, reference, positions, self.tolerance * unit)

    def _comparable(self, feed: Feed) -> bool:
        """Rounding moves the logits of a quantised sequence like a fault, and so do keys lost to a cap."""
        return feed.seq not in self.quantised and not self.cap

    def _apply(self, op: Op) -> Exception | None:
        """A cache event on the real caches; the error that the library gave instead, if it did."""
        try:
            if isinstance(op, Cut):
                for group in self._groups(op.seqs):
                    self._cut(op, group.caches)
            elif isinstance(op, Evict):
                for group in self._groups(op.seqs):
                    self.library.evict(group.caches, op.cap, op.sinks)
            elif isinstance(op, Adopt):
                self._adopt(op)
            elif isinstance(op, Regroup):
                regroup = self.stage.filter if op.phase == "filter" else self.stage.regroup
                regroup(op.seqs)
            elif isinstance(op, Event):
                self._event(op)
        except (ValueError, RuntimeError, NotImplementedError, AttributeError, TypeError) as error:
            self.stopped, self.raised = f"step {op.step}: {op.__class__.__name__.lower()}: {error}", error
            return error
        return None

    def _cut(self, op: Cut, caches: list[Any]) -> None:
        """As the library does it, all layers or none; or as the trace says that some layers did not."""
        if not op.kept:
            self.library.trim(caches, op.tokens)
            return
        self.library.trim_some(self.instance, caches, op.tokens, op.kept)

    def _groups(self, seqs: tuple[str, ...]) -> list[Group]:
        """The groups of these sequences, each once; rows that are cut alone leave their batch first."""
        found = [self.stage.group_of(seq) for seq in seqs]
        for group in found:
            if group is not None and not set(group.seqs) <= set(seqs):
                return [self.stage.together(seqs, batched=len(seqs) > 1)]
        return list({id(g): g for g in found if g is not None}.values())

    def _adopt(self, op: Adopt) -> None:
        if self.store is not None:
            self._fetch(op, self.store)
            return
        donor = self._fresh()
        held = Tape(op.seq)
        held.adopt(op.entry, op.matched)
        codes = np.array([held.held], dtype=np.int64)
        self.probe.feeding = Feeding(seq=[self.numbers[op.seq]], positions=codes, real=codes >= 0)
        if op.entry:
            self.instance.forward(self.prompts[op.seq].of(held.held)[None], donor)
            self.library.evaluate(donor)
        self.events.clear()
        caches = self.library.fork(donor)
        if op.trimmed:
            self._shorten(caches, op.trimmed)
        self.stage.enter(op.seq, caches)

    def _shorten(self, caches: list[Any], tokens: int) -> None:
        """Cut the end off a stored prefix."""
        self.library.trim(caches, tokens)

    def _fetch(self, op: Adopt, store: Any) -> None:
        """Ask the store for what the sequence is about to feed, as the server does with a whole prompt.

        Raises:
            UnjudgedError: the store gives back less than the trace says.
        """
        if op.whole:
            self._fetch_all(op, store)
            return
        later = (o for o in self.plan.ops[self.number :] if isinstance(o, Forward))
        feeds = (feed for o in later for feed in o.feeds if feed.seq == op.seq)
        codes = [code for feed in islice(feeds, 1) for code in feed.codes if code >= 0]
        caches, restored = store.fetch(self.prompts[op.seq].of([*range(op.matched), *codes]))
        if caches is None or restored < op.entry - op.trimmed:
            raise UnjudgedError(
                f"the prompt cache gives back {restored} tokens, not {op.entry - op.trimmed}: the rest is "
                "prefilled again"
            )
        self.claimed = restored
        self._take_over(op)
        self.stage.enter(op.seq, caches)

    def _fetch_all(self, op: Adopt, store: Any) -> None:
        """Ask for the sequence, and feed what the store does not give back; nothing, where it gives all of a
        whole prompt: the server then goes on with no tokens.
        """
        codes = list(range(op.matched))
        later = [] if op.whole else [op.matched]
        prompt = self.prompts[op.seq].of([*codes, *later])
        caches, self.claimed = store.fetch(prompt)
        self._take_over(op)
        caches = self._fresh() if caches is None else caches
        left = codes[self.claimed :]
        if left:
            fed = np.array([left], dtype=np.int64)
            self.probe.feeding = Feeding(seq=[self.numbers[op.seq]], positions=fed, real=fed >= 0)
            self.instance.forward(self.prompts[op.seq].of(left)[None], caches)
            self.library.evaluate(caches)
            self.claimed = op.matched
        elif op.whole:
            store.begin(self.instance.model, prompt, caches)
        self.stage.enter(op.seq, caches)

    def _take_over(self, op: Adopt) -> None:
        """What was the stored sequence's own is this one's, too."""
        if self.probe.identity is not None and op.seq in self.plan.shared:
            owner, common = self.plan.shared[op.seq]
            self.probe.identity.adopt(self.numbers[op.seq], self.numbers[owner], common)

    def _save(self, op: Event) -> None:
        """What a server stores is a copy of the row, or the finished sequence's own caches."""
        if self.store is None:
            return
        for seq in op.seqs:
            group = self.stage.group_of(seq)
            caches = self.stage.copies.get(seq) or (group.caches if group is not None else None)
            if caches is not None:
                self.store.insert(self.prompts[seq].of(self.tapes[seq].own), caches)

    def _event(self, op: Event) -> None:
        if op.phase == "save":
            self._save(op)
            return
        if op.phase == "extract":
            for seq in op.seqs:
                self.stage.extract(seq)
            return
        for group in self._groups(op.seqs):
            if op.phase == "finalize":
                self.library.finalize(group.caches)
            elif op.phase == "load":
                group.caches = self.library.through_a_file(group.caches)
            elif op.phase == "quantize":
                self.library.quantize(group.caches, op.bits or 8)
                self.quantised |= set(group.seqs)

    def _fresh(self) -> list[Any]:
        if self.cap:
            return self.library.capped(self.instance, self.cap)
        caches = self.instance.new_cache(self.consumer.makers(self.plan.caches))
        if self.drafts:
            self.library.expect_drafts(caches)
        return caches


def _margin(logits: Floats) -> float | None:
    if np.isnan(logits).any():
        return None
    top = np.partition(logits, -2)[-2:]
    return float(top[1] - top[0])
