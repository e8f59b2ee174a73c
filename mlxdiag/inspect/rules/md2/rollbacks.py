"""MD209: speculation past the window."""

from __future__ import annotations

from collections.abc import Iterator

from mlxdiag.inspect.findings import Finding
from mlxdiag.inspect.rule import Rule
from mlxdiag.inspect.rules.md2.trims import crossed
from mlxdiag.inspect.run import Run
from mlxdiag.inspect.sequence import Sequence, asked_and_done
from mlxdiag.traces.types import Entry, Row


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
            end = _end(kind, row, state, sequences.observed[index])
            window = None if end is None else crossed(entry.attention or (), state, run, end)
            asked, done = asked_and_done(entry, row)
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


def _end(kind: str, row: Row, state: Sequence, seen: int | None) -> int | None:
    """Where the block ends: the one that is verified, or the one before this rollback."""
    if kind == "rollback":
        return state.verify.end if state.verify is not None else None
    begin = seen if seen is not None else state.position
    return None if begin is None or row.tokens is None else begin + row.tokens
