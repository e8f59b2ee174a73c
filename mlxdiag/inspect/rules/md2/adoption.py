"""MD205 and MD210: lengths that must survive a change of hands."""

from __future__ import annotations

from collections.abc import Iterator

from mlxdiag.inspect.findings import Finding
from mlxdiag.inspect.rule import Rule
from mlxdiag.inspect.run import Run
from mlxdiag.traces.types import FORWARD_PHASES, Entry


class AdoptedLengthMismatch(Rule):
    """A prompt went on from a stored prefix of another length than the one it matched.

    What is restored must be the entry less what was trimmed, no more than what matched, and exactly
    where the next token is fed. Restoring more leaves another prompt's tokens in view; feeding from
    further on leaves a hole; feeding from the stored length into an empty cache answers without the
    history. A partial hit (60 matched of an entry of 100, 60 restored) and a whole hit that leaves the
    last token to be fed (49 of 50) are right.

    What to do: derive the length from the restored cache itself, and feed from exactly there.

    Seen in: Blaizzy/mlx-vlm#1715; waybarrios/vllm-mlx#296; vllm-project/vllm-metal#139;
    lablup/mlxcel#1346; maclocal-api#94.
    """

    code = "MD205"
    name = "adopted-length-mismatch"
    hint = "mlxdiag replay {trace}"
    fires = (
        """\
steps:
- {phase: adopt, rows: [{seq: b, matched: 60, entry: 100, trimmed: 40, restored: 100}]}
""",
        """\
steps:
- {phase: adopt, rows: [{seq: b, matched: 60, entry: 100, restored: 61}]}
""",
        # The entry held no keys: the scheduler skips 60 tokens that no cache has.
        """\
steps:
- {phase: adopt, rows: [{seq: b, matched: 60, entry: 60, restored: 60}]}
- {step: 2, phase: prefill, rows: [{seq: b, tokens: 12}], attention: [{family: full, offset: 0,
    q: 12, k: 12}]}
""",
    )
    quiet = (
        """\
steps:
- {phase: adopt, rows: [{seq: b, matched: 60, entry: 100, trimmed: 40, restored: 60}]}
- {phase: chunk, rows: [{seq: b, offset: 60, tokens: 12}]}
""",
        # The last token of a whole hit is fed again.
        """\
steps:
- {phase: adopt, rows: [{seq: b, matched: 50, entry: 50, trimmed: 1, restored: 49}]}
- {phase: decode, rows: [{seq: b, offset: 49, tokens: 1}]}
""",
        """\
steps:
- {phase: adopt, rows: [{seq: b, matched: 50, entry: 50, restored: 49}]}
""",
        # Declined: slow and right.
        """\
steps:
- {phase: adopt, rows: [{seq: b, matched: 60, entry: 100}], refused: "not trimmable"}
- {phase: prefill, rows: [{seq: b, offset: 0, tokens: 72}]}
""",
    )

    def on_entry(self, entry: Entry, run: Run) -> Iterator[Finding]:
        if entry.refused is not None:
            return
        sequences = run.sequences
        for index, (row, state) in enumerate(zip(sequences.rows, sequences.states, strict=True)):
            kind = row.phase or sequences.kind
            if kind == "adopt":
                message = _impossible(row.matched, row.entry, row.trimmed, row.restored)
                numbers = (row.matched, row.entry, row.trimmed, row.restored)
            elif kind in FORWARD_PHASES and state is not None and state.adopted is not None:
                before = sequences.restarted[index]
                position = state.position if before is None else before
                seen, stored = sequences.observed[index], state.adopted
                if state.trim is not None or seen is None or position is None or seen == position:
                    continue
                message = f"{position} tokens were restored, but the sequence goes on at {seen}"
                numbers = (stored.matched, stored.entry, stored.trimmed, stored.restored)
            else:
                continue
            if message is not None:
                matched, stored_length, trimmed, restored = numbers
                yield self.found(
                    message,
                    seq=row.seq,
                    step=entry.step,
                    matched=matched,
                    entry=stored_length,
                    trimmed=trimmed,
                    restored=restored,
                )


def _impossible(
    matched: int | None, entry: int | None, trimmed: int | None, restored: int | None
) -> str | None:
    if restored is None:
        return None
    if entry is not None and trimmed is not None and restored != entry - trimmed:
        return f"an entry of {entry} less {trimmed} leaves {entry - trimmed}, but {restored} were restored"
    if matched is not None and restored > matched:
        return f"{restored} tokens were restored where only {matched} match the prompt"
    return None


class MergeSizeMismatch(Rule):
    """A row went into a batch with another length than its keys have.

    The batch makes room for the length that each cache reports, then copies the keys: one differing
    from the other ends in a broadcast error, or, where a slice of zero length takes the whole array, in
    foreign keys.

    What to do: slice each row's keys by the length that they have, and treat an empty row as empty.

    Seen in: ml-explore/mlx-lm#735, #742, #983, #1116; jundot/omlx#543; Blaizzy/mlx-vlm#1900;
    vllm-metal#117.
    """

    code = "MD210"
    name = "merge-size-mismatch"
    hint = "mlxdiag replay {trace}"
    fires = (
        """\
steps:
- {phase: merge, rows: [{seq: a, declared: 96, size: 256}, {seq: b, declared: 40, size: 40}]}
""",
        """\
steps:
- {phase: merge, rows: [{seq: a, declared: 0, size: 24}]}
""",
    )
    quiet = (
        """\
steps:
- {phase: merge, rows: [{seq: a, declared: 96, size: 96}, {seq: b, declared: 0, size: 0}]}
""",
        """\
steps:
- {phase: merge, rows: [{seq: a, declared: 96}]}
""",
    )

    def on_entry(self, entry: Entry, run: Run) -> Iterator[Finding]:
        if run.sequences.kind != "merge":
            return
        for row in run.sequences.rows:
            if row.declared is not None and row.size is not None and row.declared != row.size:
                yield self.found(
                    f"the row's cache reports {row.declared} tokens, its keys have {row.size}",
                    seq=row.seq,
                    step=entry.step,
                    declared=row.declared,
                    size=row.size,
                )
