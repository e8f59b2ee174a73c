"""MD204 and MD209: taking tokens back."""

from __future__ import annotations

from collections.abc import Iterator

from mlxdiag.inspect.findings import Finding
from mlxdiag.inspect.rule import Rule
from mlxdiag.inspect.run import Run
from mlxdiag.inspect.sequences import Sequence, Trim, offset_at
from mlxdiag.traces.types import FORWARD_PHASES, Attention, Entry, Row

_RING = ("rotating", "batch_rotating", "static_sliding")
"""Caches that overwrite what they would have to give back."""

_WINDOWED = "model: {layers: {sliding: {attention: sliding, window: 8}, full: {attention: full}}}\n"


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
            if state.trim.refused is not None or state.trim.reported:
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
        for call in () if run.sequences.restarted[index] is not None else _calls(entry, run):
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
        return _cannot(trim, run)

    def on_end(self, run: Run) -> Iterator[Finding]:
        for state in run.sequences.unconfirmed():
            trim = state.trim
            if trim is None or trim.refused is not None or trim.reported:
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


class RollbackAcrossWindow(Rule):
    """Speculation drafted past the window on a cache that cannot take tokens back.

    A verify block that ends past `W` makes a plain rotating cache drop what the rejected drafts
    displaced, so the rollback does nothing: the answer goes on with rejected tokens in view. Either the
    cache needs slack for the block, or speculation must stand down before the window; standing down is
    legal, and only noted.

    What to do: give the rotating cache slack for a block, or stop drafting once the block would cross
    the window.

    Seen in: ml-explore/mlx-swift-lm#474; ml-explore/mlx-lm#1423; raullenchai/Rapid-MLX#3605.
    """

    code = "MD209"
    name = "rollback-across-window"
    absorbs = ("MD204",)
    hint = "mlxdiag replay {trace}"
    fires = (
        """\
model: {layers: {sliding: {attention: sliding, window: 8}, full: {attention: full}}}
steps:
- {step: 7, phase: verify, rows: [{seq: a, offset: 7, tokens: 3}]}
- {step: 8, phase: rollback, rows: [{seq: a, asked: 2, done: 0}]}
- {step: 9, phase: verify, rows: [{seq: a, offset: 8, tokens: 3}]}
""",
    )
    quiet = (
        # Slack makes the rollback exact.
        """\
model: {layers: {sliding: {attention: sliding, cache: buffered, window: 8, slack: 32}}}
steps:
- {phase: verify, rows: [{seq: a, offset: 7, tokens: 3}]}
- {phase: rollback, rows: [{seq: a, asked: 2, done: 2}]}
""",
        # Before the window.
        """\
model: {layers: {sliding: {attention: sliding, window: 8}, full: {attention: full}}}
steps:
- {phase: verify, rows: [{seq: a, offset: 4, tokens: 3}]}
- {phase: rollback, rows: [{seq: a, asked: 2, done: 2}]}
""",
        # Every draft was right.
        """\
model: {layers: {sliding: {attention: sliding, window: 8}, full: {attention: full}}}
steps:
- {phase: verify, rows: [{seq: a, offset: 7, tokens: 3}]}
- {phase: rollback, rows: [{seq: a, asked: 0, done: 0}]}
""",
    )

    def on_entry(self, entry: Entry, run: Run) -> Iterator[Finding]:
        sequences = run.sequences
        for index, (row, state) in enumerate(zip(sequences.rows, sequences.states, strict=True)):
            kind = row.phase or sequences.kind
            if state is None or kind not in ("rollback", "verify"):
                continue
            asked, done, end = _asked(entry, row, kind, state, sequences.observed[index])
            window = None if end is None else _crossed(entry, run, end)
            if window is None or end is None:
                continue
            if entry.refused is not None:
                yield self.found(
                    f"a block to {end} crosses the window of {window};"
                    f" speculation stands down: {entry.refused}",
                    severity="info",
                    seq=row.seq,
                    step=entry.step,
                    window=window,
                )
            elif kind == "rollback" and asked and done == 0:
                yield self.found(
                    f"the block ended at {end}, past the window of {window}:"
                    f" of {asked} tokens none was rolled back",
                    seq=row.seq,
                    step=entry.step,
                    window=window,
                    asked=asked,
                    done=done,
                )


def _counts(trim: Trim) -> Iterator[tuple[int | None, int | None, str | None]]:
    yield trim.asked, trim.done, None
    for call in trim.layers:
        yield call.asked if call.asked is not None else trim.asked, call.done, call.family


def _calls(entry: Entry, run: Run) -> list[Attention]:
    return [
        call
        for call in entry.attention or ()
        if call.cache != "recurrent" and run.facts(call.family).kind != "recurrent"
    ]


def _cannot(trim: Trim, run: Run) -> str | None:
    """A ring that has wrapped cannot take back tokens; padding that the last call appended it can."""
    cut = trim.done if trim.done is not None else trim.asked
    if not cut or trim.held is None or cut <= trim.pads:
        return None
    for family, window in _rings(trim.layers, run):
        if trim.held > window:
            return (
                f"{cut} tokens were taken back from the {family} ring of {window} at {trim.held}:"
                " it had wrapped and cannot restore what they displaced"
            )
    return None


def _rings(calls: tuple[Attention, ...], run: Run) -> Iterator[tuple[str | None, int]]:
    """Plain rotating layers and their windows: of the calls, else of the model."""
    if calls:
        named = [(call.family, call.cache, call.window) for call in calls]
    else:
        layers = (run.model.layers if run.model is not None else None) or {}
        named = [(family, None, None) for family in layers]
    for family, cache, window in named:
        facts = run.facts(family)
        bound = window if window is not None else facts.window
        if (cache or facts.cache) in _RING and bound is not None and not facts.slack:
            yield family, bound


def _asked(
    entry: Entry, row: Row, kind: str, state: Sequence, seen: int | None
) -> tuple[int | None, int | None, int | None]:
    """Tokens asked back, tokens given back, and where the block ends."""
    if kind == "verify":
        begin = seen if seen is not None else state.position
        return None, None, None if begin is None or row.tokens is None else begin + row.tokens
    layers = [call for call in entry.attention or () if call.done is not None]
    asked = row.asked if row.asked is not None else max((call.asked or 0 for call in layers), default=None)
    done = min((call.done for call in layers if call.done is not None), default=row.done)
    return asked, done, state.verify.end if state.verify is not None else None


def _crossed(entry: Entry, run: Run, end: int) -> int | None:
    """The window that a block ending at `end` crosses on a cache without slack."""
    windows = [window for _, window in _rings(tuple(entry.attention or ()), run) if end > window]
    return min(windows, default=None)
