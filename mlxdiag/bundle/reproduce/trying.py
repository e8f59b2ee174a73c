"""Controls: the smallest schedule with the fault, varied one thing at a time, through real model code."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise

import msgspec

from mlxdiag.bundle.reproduce import variants
from mlxdiag.bundle.reproduce.controls import EDGE, FAILS, NOT_TRIED, OTHER, PASSES, RAN_IN, Control
from mlxdiag.bundle.reproduce.instances import Instances, others
from mlxdiag.bundle.reproduce.variants import Prompt
from mlxdiag.errors import MlxdiagError
from mlxdiag.inspect.findings import codes
from mlxdiag.replay import experiment, memory
from mlxdiag.replay.experiment import Ran
from mlxdiag.replay.misfit import POLICIES
from mlxdiag.reports.view import count
from mlxdiag.traces.types import Trace

MOST_SIZES = 6
MOST_RUNS = 12
"""Of chunk sizes; a run of a smallest schedule takes tens of milliseconds."""


class Seen(msgspec.Struct, frozen=True):
    """One run."""

    codes: tuple[str, ...]
    """Of errors and warnings, causes included."""
    errors: tuple[str, ...]
    crash: str | None
    wrong: int
    empty: int
    max_abs: float | None
    agrees: bool
    """Logits were compared, and none is off by more than rounding."""

    @property
    def wrong_at_all(self) -> bool:
        """Something is wrong with what was computed, and not with shapes alone."""
        return bool(self.errors) or self.crash is not None

    def in_words(self) -> str:
        """What the run showed beside its codes."""
        if self.crash is not None:
            return f"crash: {self.crash}"
        counted = ((self.empty, "empty rows"), (self.wrong, "wrong queries"))
        said = [f"{what}: {n}" for n, what in counted if n]
        if self.agrees:
            said.append("logits agree with the single pass")
        elif self.max_abs is not None:
            said.append(f"logits off by up to {self.max_abs:.2g}")
        return "; ".join(said)


def run(
    trace: Trace,
    policy: str | None = None,
    instances: Instances | None = None,
    attention: str | None = None,
) -> Seen | str:
    """One schedule on a tiny instance; the reason, where it cannot run.

    `instances`: models that may serve several runs. `attention`: an implementation of it in place of the
    library's choice.
    """
    try:
        prepared = experiment.prepare(trace, source="trace.yaml")
        if prepared.broken is not None:
            return str(prepared.broken)
        memory.require(prepared)
        with (instances or Instances()).attending(prepared, attention) as instance:
            ran = experiment.run_policies(prepared, instance, (policy or prepared.plan.misfit,))[0]
    except MlxdiagError as error:
        return str(error)
    return _seen(ran)


def _seen(ran: Ran) -> Seen:
    loud = [f for f in ran.report.findings if f.severity != "info"]
    outcome = ran.outcome
    return Seen(
        codes=tuple(sorted(codes(loud))),
        errors=tuple(sorted(f.code for f in loud if f.severity == "error")),
        crash=outcome.crash,
        wrong=outcome.wrong_window + outcome.padding,
        empty=outcome.empty,
        max_abs=outcome.max_abs,
        agrees=outcome.max_abs is not None and outcome.first_wrong is None,
    )


class Trial:
    """Stateful: remembers what the fault looks like, and says of each variation whether it is the same."""

    def __init__(
        self,
        trace: Trace,
        seq: str | None,
        fault: frozenset[str],
        say: Callable[[str], None],
        *,
        whole: Trace | None = None,
        dtype: str | None = None,
    ) -> None:
        """`fault`: codes of the headline and its causes; empty where nothing is wrong with the trace.

        `whole`: what the smallest schedule was made from; its chunks are varied, at a small scale.
        `dtype`: what the recorded model computes in.
        """
        self.trace = trace
        self.seq = seq
        self.fault = fault
        self.say = say
        self.dtype = dtype
        self.instances = Instances()
        self.ground = self._ground(whole)
        """The schedule whose chunks are varied."""

    def all(self) -> Iterator[Control]:
        """Every control, in the order in which a reader wants them."""
        what = "the smallest schedule that shows the fault" if self.fault else "the schedule as recorded"
        whole = self._control("as-recorded", what, self.trace)
        yield whole
        yield self._precision(whole)
        yield self._concurrency(whole)
        prompt = variants.prompt_of(self.ground, self.seq)
        if prompt is None:
            for name, what in (("single-pass", "a single pass"), ("chunk", "other chunk sizes")):
                yield _untried(name, what, "no forward of this schedule says what it fed")
        else:
            single = variants.chunked(self.ground, prompt, prompt.tokens)
            what = f"{_tokens(prompt)} in a single pass, the library's own masks"
            yield self._control("single-pass", what, single)
            yield from self._chunks(prompt)
        yield from self._policies()
        yield from self._attentions()

    def _ground(self, whole: Trace | None) -> Trace:
        """The recorded schedule at a small scale, where that still shows the fault; else the smallest."""
        scaled = variants.middle(whole) if whole is not None else None
        if scaled is None:
            return self.trace
        seen = self._run(scaled)
        still = not isinstance(seen, str) and self._result(seen) == FAILS
        return scaled if still else self.trace

    def _run(self, trace: Trace, policy: str | None = None, attention: str | None = None) -> Seen | str:
        return run(trace, policy, self.instances, attention)

    def _control(
        self,
        name: str,
        what: str,
        trace: Trace,
        policy: str | None = None,
        *,
        value: str = "",
        attention: str | None = None,
    ) -> Control:
        self.say(f"trying {what.replace('{}', value)} ...")
        seen = self._run(trace, policy, attention)
        if isinstance(seen, str):
            return _untried(name, what, seen, value)
        return Control(
            name=name,
            what=what,
            value=value,
            result=self._result(seen),
            codes=seen.codes,
            reason=_reason(seen),
        )

    def _result(self, seen: Seen) -> str:
        if not seen.wrong_at_all:
            return PASSES
        return FAILS if not self.fault or self.fault & set(seen.codes) else OTHER

    def _precision(self, whole: Control) -> Control:
        what = f"{RAN_IN}, in which every run here computes; recorded: {self.dtype or 'not known'}"
        if whole.result == NOT_TRIED:
            return _untried("float32", what, whole.reason)
        reason = {
            FAILS: "the fault is there in float32, so it is no matter of precision",
            PASSES: "in float32 it is right" + (": precision may be the cause" if self.fault else ""),
            OTHER: "in float32 another fault shows",
        }[whole.result]
        return Control(name="float32", what=what, result=whole.result, codes=whole.codes, reason=reason)

    def _concurrency(self, whole: Control) -> Control:
        what = "concurrency 1: the sequence alone"
        trace = variants.alone(self.trace, self.seq)
        if trace is None:
            return Control(
                name="concurrency-1",
                what=what,
                result=whole.result,
                reason=whole.reason
                if whole.result == NOT_TRIED
                else "the schedule holds one sequence already, so no other is needed",
            )
        return self._control("concurrency-1", what, trace)

    def _chunks(self, prompt: Prompt) -> Iterator[Control]:
        """Powers of two up to the prompt, then the exact edge by halves where the result changes."""
        own = variants.can_be_rebuilt(prompt)
        if (prompt.handed and not own) or not self._same_caches(prompt):
            reason = (
                "the program's own mask or cache is at fault, and how it would look at another length is not "
                "in the trace"
            )
            yield _untried("chunk", "other chunk sizes", reason)
            own = False
        made = "the scheduler's mask built as it was" if own else "the library's own masks"
        results: dict[int, Control] = {}
        for size in _sizes(prompt):
            results[size] = self._chunk(prompt, size, own, made)
        yield from (results[size] for size in sorted(results))
        yield from self._edge(prompt, own, made, results)

    def _same_caches(self, prompt: Prompt) -> bool:
        """Whether a variant runs on the recorded caches: some are known by their calls alone."""
        try:
            recorded = experiment.prepare(self.ground, source="trace.yaml").plan.caches
            varied = experiment.prepare(
                variants.chunked(self.ground, prompt, prompt.chunk), source="trace.yaml"
            ).plan.caches
        except MlxdiagError:
            return False
        return recorded == varied

    def _chunk(self, prompt: Prompt, size: int, own: bool, made: str) -> Control:
        trace = variants.chunked(self.ground, prompt, size, own=own)
        what = f"{_tokens(prompt)} in chunks of {{}}, {made}"
        return self._control(f"chunk-{size}", what, trace, value=str(size))

    def _edge(self, prompt: Prompt, own: bool, made: str, results: dict[int, Control]) -> Iterator[Control]:
        sizes = [size for size in sorted(results) if results[size].result != NOT_TRIED]
        for low, high in pairwise(sizes):
            if (results[low].result == PASSES) == (results[high].result == PASSES):
                continue
            first = results[low].result
            while high - low > 1 and len(results) < MOST_RUNS:
                middle = (low + high) // 2
                results[middle] = self._chunk(prompt, middle, own, made)
                if (results[middle].result == PASSES) == (first == PASSES):
                    low = middle
                else:
                    high = middle
            if high - low == 1:
                text = f"chunks of {low}: {results[low].result}; of {high}: {results[high].result}"
                yield Control(
                    name=EDGE,
                    what=f"{_tokens(prompt)}: the exact edge, {made}",
                    result=results[high].result,
                    reason=text,
                )
            return

    def _policies(self) -> Iterator[Control]:
        """What another consumer would do with the mask, where one does not fit."""
        try:
            plan = experiment.prepare(self.trace, source="trace.yaml").plan
        except MlxdiagError as error:
            yield _untried("misfit", "other misfit policies", str(error))
            return
        if not any(forward.callers for forward in plan.forwards):
            reason = "no mask comes from outside of the model here, so no policy can change anything"
            yield _untried("misfit", "other misfit policies", reason)
            return
        for policy in POLICIES:
            if policy != plan.misfit:
                what = "the program's own policy for a mask that does not fit: {}"
                yield self._control(f"misfit-{policy}", what, self.trace, policy, value=policy)

    def _attentions(self) -> Iterator[Control]:
        """Other implementations of attention, where the library lets a program choose one."""
        try:
            prepared = experiment.prepare(self.trace, source="trace.yaml")
            instance = self.instances.of(prepared)
        except MlxdiagError:
            return  # as the schedule itself, which says why
        for name in others(instance):
            what = "attn_implementation {}"
            yield self._control(f"attention-{name}", what, self.trace, value=name, attention=name)


def _sizes(prompt: Prompt) -> list[int]:
    """Powers of two, and the whole prompt at once."""
    sizes = [2**power for power in range(12) if 2**power < prompt.tokens]
    return [*sizes[-MOST_SIZES:], prompt.tokens]


def _tokens(prompt: Prompt) -> str:
    return count(prompt.tokens, "token") + (f" (window {prompt.window})" if prompt.window else "")


def _reason(seen: Seen) -> str:
    """What came of it in words; the codes beside it are for whoever knows them."""
    if seen.errors and seen.agrees and not seen.wrong and not seen.empty:
        return f"{', '.join(seen.errors)}: the shapes do not fit; the logits of this one agree all the same"
    return seen.in_words()


def _untried(name: str, what: str, reason: str, value: str = "") -> Control:
    return Control(name=name, what=what, value=value, result=NOT_TRIED, reason=reason)
