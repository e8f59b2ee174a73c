"""MD404: the row a token was sampled from."""

from __future__ import annotations

from collections.abc import Iterator

from mlxdiag.inspect.findings import Finding
from mlxdiag.inspect.rule import Rule
from mlxdiag.inspect.run import Run
from mlxdiag.traces.types import Entry, Output, Row


class SampledRowIsPadding(Rule):
    """The token was sampled from a query that is not the last real token.

    A chunk padded from 153 to 160 has its last real token at query 152; sampling from the last row, 159,
    answers what follows seven pad tokens. A left-padded chunk ends with its last real token.

    What to do: take the logits at `tokens - 1`, not at -1.

    Seen in: the chunked prefill of mlxcel on tile-padding machines (its latent L7).
    """

    code = "MD404"
    name = "sampled-row-is-padding"
    fires = (
        """
steps:
- {step: 5, rows: [{seq: seq-6, offset: 2048, tokens: 153, padded: 160}], output: [{row: 159}]}
""",
        # -1 is the last query of the padded chunk.
        """
steps:
- {step: 5, rows: [{seq: seq-6, offset: 2048, tokens: 153, padded: 160}], output: [{row: -1}]}
""",
    )
    quiet = (
        """
steps:
- {step: 5, rows: [{seq: seq-6, offset: 2048, tokens: 153, padded: 160}], output: [{row: 152}]}
""",
        # No padding: -1 is the last real token.
        """
steps:
- {step: 5, rows: [{seq: seq-6, offset: 2048, tokens: 153}], output: [{row: -1}]}
""",
        # Left padding stands in front; the last query is real.
        """
steps:
- {step: 0, rows: [{seq: a, tokens: 5, padded: 8, left_padding: 3}], output: [{row: 7}]}
""",
        # A verify samples from every draft.
        """
steps:
- {step: 7, phase: verify, rows: [{seq: a, offset: 20, tokens: 4, drafted: 3, accepted: 1}],
   output: [{row: 1}]}
""",
    )

    def on_entry(self, entry: Entry, run: Run) -> Iterator[Finding]:
        if entry.kind == "verify":
            return
        for row, output in zip(entry.rows or (), entry.output or (), strict=False):
            last = _last_real(row)
            sampled = _sampled(row, output)
            if last is not None and sampled is not None and sampled != last and row.phase != "verify":
                yield self.found(
                    f"the token was sampled from query {sampled}, but the last real token is query {last}",
                    step=entry.step,
                    seq=row.seq,
                    sampled=sampled,
                    last_real=last,
                    tokens=row.tokens,
                    padded=row.padded,
                )


def _width(row: Row) -> int | None:
    return row.padded if row.padded is not None else row.tokens


def _last_real(row: Row) -> int | None:
    width = _width(row)
    if not row.tokens or width is None:
        return None
    return width - 1 if row.left_padding else row.tokens - 1


def _sampled(row: Row, output: Output) -> int | None:
    width = _width(row)
    if output.row is None or width is None:
        return None
    return output.row + width if output.row < 0 else output.row
