"""MD404: the row a token was sampled from."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from mlxdiag.inspect.findings import Finding
from mlxdiag.inspect.rule import Rule
from mlxdiag.inspect.run import Run
from mlxdiag.traces.types import Entry, Output, Row

SHOWN = 8
"""Sequences that a finding names."""


class SampledRowIsPadding(Rule):
    """The token was sampled from a query that is not the last real token.

    A chunk padded from 153 to 160 has its last real token at query 152; sampling from the last row, 159,
    answers what follows seven pad tokens. A left-padded chunk ends with its last real token. A batch that is
    padded on the right does so in every row but the longest: `generate` of transformers samples from the last
    column.

    What to do: take the logits at `tokens - 1`, not at -1; for `generate`, pad on the left
    (`tokenizer.padding_side = "left"`).

    Seen in: the chunked prefill of mlxcel on tile-padding machines (its latent L7); `generate` with
    `padding_side="right"`.
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
        # A batch padded on the right: the longest row ends with its last token, the other one does not.
        """
steps:
- {step: 0, phase: prefill, rows: [{seq: a, tokens: 8}, {seq: b, tokens: 5, right_padding: 3}],
   attention: [{family: full, q: 8, k: 8}], output: [{row: 7}, {row: 7}]}
""",
        # Its last chunk holds none of the shorter row's tokens.
        """
steps:
- {step: 1, phase: chunk, rows: [{seq: a, tokens: 4}, {seq: b, tokens: 0, right_padding: 4}],
   attention: [{family: full, offset: 4, q: 4, k: 8}], output: [{row: 3}, {row: 3}]}
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
        # Right padding, and each row's own last token.
        """
steps:
- {step: 0, phase: prefill, rows: [{seq: a, tokens: 8}, {seq: b, tokens: 5, right_padding: 3}],
   attention: [{family: full, q: 8, k: 8}], output: [{row: 7}, {row: 4}]}
""",
        # Padding on both sides.
        """
steps:
- {step: 0, phase: prefill, rows: [{seq: a, tokens: 8}, {seq: b, tokens: 3, left_padding: 3,
   right_padding: 2}], attention: [{family: full, q: 8, k: 8}], output: [{row: 7}, {row: 5}]}
""",
        # Nobody knows yet where its token will come from.
        """
steps:
- {step: 0, phase: prefill, rows: [{seq: a, tokens: 8}, {seq: b, tokens: 5, right_padding: 3}]}
""",
        # A row that is done feeds padding; its logits are not looked at.
        """
steps:
- {step: 9, phase: decode, rows: [{seq: a, tokens: 1}, {seq: b, tokens: 0, right_padding: 1}],
   output: [{row: 0}, {row: 0}]}
""",
        # A verify samples from every draft.
        """
steps:
- {step: 7, phase: verify, rows: [{seq: a, offset: 20, tokens: 4, drafted: 3, accepted: 1}],
   output: [{row: 1}]}
""",
    )

    def on_entry(self, entry: Entry, run: Run) -> Iterator[Finding]:
        found = [
            wrong
            for row, output in zip(entry.rows or (), entry.output or (), strict=False)
            if (wrong := self._row(entry, row, output, run)) is not None
        ]
        if len(found) < 2:
            yield from found
            return
        first = found[0]
        yield msgspec.structs.replace(
            first,
            seq=None,
            message=f"{len(found)} of {len(entry.rows or ())} rows; {first.seq}: {first.message}",
            evidence={**first.evidence, "sequences": [one.seq for one in found[:SHOWN]]},
        )

    def _row(self, entry: Entry, row: Row, output: Output, run: Run) -> Finding | None:
        phase = row.phase or entry.kind
        width = run.sequences.width(row)
        sampled = _sampled(output, width)
        if sampled is None or phase == "verify" or entry.kind == "verify":
            return None
        last = _last_real(row, width)
        if row.tokens == 0 and row.right_padding and phase in ("prefill", "chunk"):
            said = "the row holds no real token here"
        elif last is not None and sampled != last:
            said = f"the last real token is query {last}"
        else:
            return None
        return self.found(
            f"the token was sampled from query {sampled}, but {said}",
            step=entry.step,
            seq=row.seq,
            sampled=sampled,
            last_real=last,
            tokens=row.tokens,
            padded=row.padded,
            right_padding=row.right_padding,
        )


def _last_real(row: Row, width: int | None) -> int | None:
    """Query of the last real token of a row that is `width` queries wide."""
    if not row.tokens or width is None:
        return None
    if row.left_padding:
        return width - 1 - (row.right_padding or 0)
    return row.tokens - 1


def _sampled(output: Output, width: int | None) -> int | None:
    if output.row is None or width is None:
        return None
    return output.row + width if output.row < 0 else output.row
