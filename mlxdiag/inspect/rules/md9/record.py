"""MD903: a record with holes."""

from __future__ import annotations

from collections.abc import Iterator

from mlxdiag.inspect.findings import Finding
from mlxdiag.inspect.rule import Rule
from mlxdiag.inspect.run import Run
from mlxdiag.traces.types import Entry, Row


class TraceIncomplete(Rule):
    """The trace is not whole: its last line is cut off, entries were dropped, or its counters do not add up.

    What is there was judged; what is missing was not. Rules that follow a sequence from step to step may be
    quiet, or wrong about a position, across a hole.

    Missing step numbers count only in files that a recorder wrote itself: a hand-written trace may begin
    and go on where it likes.

    What to do: record again with a larger ring, or with the file on a disk that is not full.

    From: the recorder's own contract (one line a step, `dropped` where the ring overran).
    """

    code = "MD903"
    name = "trace-incomplete"
    severity = "warning"
    rests_on = "run"
    fires = (
        """
steps:
- {step: 0, phase: decode, rows: [{offset: 8, tokens: 1}], dropped: 12}
""",
        # Two tokens emitted, one class letter.
        """
steps:
- {step: 0, phase: decode, rows: [{offset: 8, tokens: 1, emitted: 2, classes: t}]}
""",
        """
level: shapes
steps:
- {step: 0, phase: prefill, rows: [{seq: a, offset: 0, tokens: 8}]}
- {step: 3, phase: decode, rows: [{seq: a, offset: 8, tokens: 1}]}
- {phase: end, exit: 0}
""",
    )
    quiet = (
        """
steps:
- {step: 0, phase: decode, rows: [{offset: 8, tokens: 1, emitted: 2, classes: tt}], dropped: 0}
""",
        # A hand-written excerpt.
        """
steps:
- {step: 5, phase: prefill, rows: [{seq: a, offset: 0, tokens: 8}]}
- {step: 9, phase: decode, rows: [{seq: a, offset: 8, tokens: 1}]}
""",
        # Cache events share the number of the step they belong to.
        """
level: shapes
steps:
- {step: 0, phase: prefill, rows: [{seq: a, offset: 0, tokens: 8}]}
- {step: 0, phase: trim, rows: [{seq: a, asked: 1, done: 1}]}
- {step: 1, phase: decode, rows: [{seq: a, offset: 7, tokens: 1}]}
- {phase: end, exit: 0}
""",
    )

    def on_entry(self, entry: Entry, run: Run) -> Iterator[Finding]:
        if entry.dropped:
            yield self.found(
                f"{entry.dropped} entries were dropped here", step=entry.step, dropped=entry.dropped
            )
        if run.recorded:
            yield from self._gap(entry, run)
        for row in entry.rows or ():
            yield from self._counters(entry, row)

    def on_end(self, run: Run) -> Iterator[Finding]:
        if run.truncated:
            yield self.found("the file is cut off; its last line is not whole", step=run.step)

    def _gap(self, entry: Entry, run: Run) -> Iterator[Finding]:
        before, step = run.before, entry.step
        if before is None or step is None or entry.dropped or before <= step <= before + 1:
            return
        missing = f"steps {before + 1} to {step - 1} are missing"
        said = missing if step > before else f"step {step} comes after step {before}"
        yield self.found(said, step=step, before=before)

    def _counters(self, entry: Entry, row: Row) -> Iterator[Finding]:
        if row.emitted is None:
            return
        for name, value in (("classes", row.classes), ("ids", row.ids)):
            if value is not None and len(value) != row.emitted:
                yield self.found(
                    f"{row.emitted} tokens were emitted but {len(value)} {name} recorded",
                    step=entry.step,
                    seq=row.seq,
                    emitted=row.emitted,
                    recorded=len(value),
                )
