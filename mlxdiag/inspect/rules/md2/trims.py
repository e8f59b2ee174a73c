"""MD204: tokens that were to be taken back."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from mlxdiag.inspect.findings import Finding
from mlxdiag.inspect.rule import Rule
from mlxdiag.inspect.rules.md2.positions import attending
from mlxdiag.inspect.run import Run
from mlxdiag.inspect.sequence import Sequence, Trim, offset_at, ring_bound
from mlxdiag.traces.types import FORWARD_PHASES, Attention, Entry


class TrimNotHonoured(Rule):
    """Tokens were to be taken back, and some layer did not.

    What was asked, what the layers say they did, and where they are at the next forward must agree on
    every layer: libraries often report one layer's count for all, and a rotating cache that has wrapped
    cannot give back what it overwrote, whatever it answers. Stale tokens then stay visible. It is
    harmless when the engine sees the refusal and prefills again.

    What to do: ask every layer first (`can_trim_prompt_cache`), and prefill again where one declines.

    Seen in: ml-explore/mlx-swift-lm#383; waybarrios/vllm-mlx#353, #678; raullenchai/Rapid-MLX#1124;
    ollama#14912.
    """

    code = "MD204"
    name = "trim-not-honoured"
    absorbs = ("MD202",)
    hint = "mlxdiag replay {trace}"
    fires = (
        """\
steps:
- {phase: decode, rows: [{seq: a, offset: 20, tokens: 1}]}
- {step: 3, phase: trim, rows: [{seq: a, asked: 4, done: 0}]}
- {step: 4, phase: chunk, rows: [{seq: a, offset: 17, tokens: 6}]}
""",
        # The first layer's count was reported; another layer stayed where it was.
        """\
steps:
- {phase: decode, rows: [{seq: a, offset: 20, tokens: 1}]}
- {phase: trim, rows: [{seq: a, asked: 4, done: 4}]}
- {phase: chunk, rows: [{seq: a, tokens: 6}], attention: [{family: full, offset: 17, q: 6},
    {family: sliding, offset: 21, q: 6}]}
""",
        # A ring of 8 that has wrapped says yes.
        """\
model: {layers: {sliding: {attention: sliding, window: 8}, full: {attention: full}}}
steps:
- {phase: decode, rows: [{seq: a, offset: 20, tokens: 1}]}
- {phase: trim, rows: [{seq: a, asked: 2, done: 2}]}
- {phase: decode, rows: [{seq: a, offset: 19, tokens: 1}]}
""",
    )
    quiet = (
        """\
steps:
- {phase: decode, rows: [{seq: a, offset: 20, tokens: 1}]}
- {phase: trim, rows: [{seq: a, asked: 4, done: 4}]}
- {phase: chunk, rows: [{seq: a, offset: 17, tokens: 6}]}
""",
        # Not yet wrapped.
        """\
model: {layers: {sliding: {attention: sliding, window: 8}, full: {attention: full}}}
steps:
- {phase: decode, rows: [{seq: a, offset: 6, tokens: 1}]}
- {phase: trim, rows: [{seq: a, asked: 2, done: 2}]}
- {phase: decode, rows: [{seq: a, offset: 5, tokens: 1}]}
""",
        # Wrapped, with the keys that it displaced kept beside it.
        """\
model: {layers: {sliding: {attention: sliding, window: 8}, full: {attention: full}}}
steps:
- {phase: verify, rows: [{seq: a, offset: 20, tokens: 4}]}
- {phase: rollback, rows: [{seq: a, asked: 2, done: 2}],
   attention: [{family: sliding, cache: rotating, asked: 2, done: 2, slack: 3}]}
- {phase: decode, rows: [{seq: a, offset: 22, tokens: 1}]}
""",
        # Only padding is cut off again, past the window.
        """\
model: {layers: {sliding: {attention: sliding, window: 8}, full: {attention: full}}}
steps:
- {phase: prefill, rows: [{seq: a, offset: 0, tokens: 13, padded: 16}]}
- {phase: trim, rows: [{seq: a, asked: 3, done: 3}]}
- {phase: decode, rows: [{seq: a, offset: 13, tokens: 1}]}
""",
        # More asked than held: the cache is empty, and the prompt is fed again.
        """\
steps:
- {phase: prefill, rows: [{seq: a, offset: 0, tokens: 5}]}
- {phase: trim, rows: [{seq: a, asked: 9, done: 5}]}
- {phase: prefill, rows: [{seq: a, offset: 0, tokens: 5}]}
""",
    )

    def on_entry(self, entry: Entry, run: Run) -> Iterator[Finding]:
        sequences = run.sequences
        if sequences.kind in ("trim", "rollback") and entry.refused is not None:
            for row in sequences.rows:
                if row.asked and row.done != row.asked:
                    yield self.found(
                        f"{row.asked} tokens were to be taken back and the engine declined: {entry.refused}",
                        severity="info",
                        seq=row.seq,
                        step=entry.step,
                        asked=row.asked,
                        done=row.done,
                    )
            return
        for index, (row, state) in enumerate(zip(sequences.rows, sequences.states, strict=True)):
            if state is None or state.trim is None or (row.phase or sequences.kind) not in FORWARD_PHASES:
                continue
            if state.trim.refused is not None or _rolled_back_in_vain(state.trim, state, run):
                continue
            reason = self._broken(entry, index, state, state.trim, run)
            if reason is not None:
                again = sequences.restarted[index] is not None
                yield self.found(
                    f"{reason}; the engine prefilled again" if again else reason,
                    severity="info" if again else "error",
                    seq=row.seq,
                    step=state.trim.step if state.trim.step is not None else entry.step,
                    asked=state.trim.asked,
                    done=state.trim.done,
                )

    def _broken(self, entry: Entry, index: int, state: Sequence, trim: Trim, run: Run) -> str | None:
        for asked, done, family in _counts(trim):
            if (
                asked is not None
                and done is not None
                and asked != done
                and not (done == trim.held and done < asked)
            ):
                where = f" on the {family} layers" if family else ""
                return f"{asked} tokens were to be taken back and {done} were{where}"
        for call in () if run.sequences.restarted[index] is not None else attending(entry, run):
            offset = offset_at(call, index)
            if offset is not None and state.position is not None and offset != state.position:
                return f"after the trim the {call.family} layers are at {offset}, not at {state.position}"
        seen = run.sequences.observed[index]
        if (
            run.sequences.restarted[index] is None
            and None not in (seen, state.position)
            and seen != state.position
        ):
            return f"after the trim the sequence goes on at {seen}, not at {state.position}"
        return _cannot(trim, state, run)

    def on_end(self, run: Run) -> Iterator[Finding]:
        for state in run.sequences.unconfirmed():
            trim = state.trim
            if trim is None or trim.refused is not None or _rolled_back_in_vain(trim, state, run):
                continue
            for asked, done, _ in _counts(trim):
                if asked is not None and done is not None and done < asked and done != trim.held:
                    yield self.found(
                        f"{asked} tokens were to be taken back and {done} were; the trace ends there",
                        severity="info",
                        seq=state.seq,
                        step=trim.step,
                        asked=asked,
                        done=done,
                    )
                    break


def _counts(trim: Trim) -> Iterator[tuple[int | None, int | None, str | None]]:
    yield trim.asked, trim.done, None
    for call in trim.layers:
        yield call.asked if call.asked is not None else trim.asked, call.done, call.family


def _rolled_back_in_vain(trim: Trim, state: Sequence, run: Run) -> bool:
    """MD209 has told this one: a block across the window of which nothing came back."""
    return (
        bool(trim.asked)
        and trim.done == 0
        and trim.verify is not None
        and crossed(trim.layers, state, run, trim.verify.end) is not None
    )


def crossed(calls: Iterable[Attention], state: Sequence, run: Run, end: int) -> int | None:
    """The window that a block ending at `end` crosses on a cache without slack."""
    return min((window for _, window in rings(calls, state, run) if end > window), default=None)


def _cannot(trim: Trim, state: Sequence, run: Run) -> str | None:
    """A ring that has wrapped cannot take back tokens; padding that the last call appended it can."""
    cut = trim.done if trim.done is not None else trim.asked
    if not cut or trim.held is None or cut <= trim.pads:
        return None
    for family, window in rings(trim.layers, state, run):
        if trim.held > window:
            return (
                f"{cut} tokens were taken back from the {family} ring of {window} at {trim.held}:"
                " it had wrapped and cannot restore what they displaced"
            )
    return None


def rings(calls: Iterable[Attention], state: Sequence, run: Run) -> Iterator[tuple[str | None, int]]:
    """Plain rotating layers and their bounds: as these calls, else the last forward, else the config says."""
    named = [call for call in calls if call.cache is not None]
    if named:
        bounds = {call.family: ring_bound(call, run.facts(call.family)) for call in named}
    elif state.rings:
        bounds = state.rings
    else:
        layers = (run.model.layers if run.model is not None else None) or {}
        bounds = {family: ring_bound(Attention(), run.facts(family)) for family in layers}
    for family, bound in bounds.items():
        if bound is not None:
            yield family, bound
