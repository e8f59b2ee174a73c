"""MD103: the query and batch axes of a mask."""

from __future__ import annotations

from collections.abc import Iterator

from mlxdiag.inspect.call import Call
from mlxdiag.inspect.findings import Finding
from mlxdiag.inspect.rule import Rule
from mlxdiag.inspect.run import Run


class MaskQueryAxis(Rule):
    """The mask's query axis is neither 1 nor the query length, or its batch axis neither 1 nor the batch
    size.

    The mask belongs to another step or another batch: built before padding, before a row joined or left, or
    for the wrong member of a mixed batch. Every strict kernel throws.

    Four-axis arrays with one entry a head are score biases (MLA families) and are judged on their key axis
    only.

    What to do: rebuild masks after padding, filtering and extending, not before.

    Seen in: jundot/omlx#79; the padded VLM prefill of mlxcel (mask 320 x 320 against 293 queries).
    """

    code = "MD103"
    name = "mask-query-axis"
    absorbs = ("MD901",)
    fires = (
        """
steps:
- {rows: [{offset: 0, tokens: 293}], attention: [{family: full, k: 320, mask: [320, 320]}]}
""",
        # Two rows, a mask for three.
        """
steps:
- {rows: [{seq: a, offset: 4, tokens: 1}, {seq: b, offset: 4, tokens: 1}],
   attention: [{family: full, k: 5, mask: [3, 1, 1, 5]}]}
""",
    )
    quiet = (
        # The query axis is that of the padded chunk.
        """
steps:
- {rows: [{offset: 0, tokens: 293, padded: 320}], attention: [{family: full, k: 320, mask: [320, 320]}]}
""",
        # One row of the mask for every query, and one batch entry for every row.
        """
steps:
- {rows: [{seq: a, offset: 4, tokens: 2}, {seq: b, offset: 4, tokens: 2}],
   attention: [{family: full, k: 6, mask: [1, 1, 1, 6]}]}
""",
        # A score bias per head.
        """
steps:
- {rows: [{offset: 64, tokens: 4}], attention: [{family: full, k: 68, mask: [2, 16, 9, 68]}]}
""",
        # Packed rows: the query axis is their sum.
        """
steps:
- {rows: [{seq: a, offset: 10, tokens: 2}, {seq: b, offset: 4, tokens: 3}],
   attention: [{family: full, cache: paged, offset: [10, 4], k: [12, 7], mask: [1, 1, 5, 19]}]}
""",
        # A layer that folds its tokens into the batch: each is a row of one query, with a mask of its own.
        """
steps:
- {rows: [{seq: a, tokens: 12}], attention: [{family: full, q: 1, k: 8, mask: [12, 1, 1, 8]}]}
""",
    )

    def on_call(self, call: Call, run: Run) -> Iterator[Finding]:
        if call.mask_kind != "array":
            return
        severity = "info" if call.fate == "rebuilt" else "error"
        legal = _query_lengths(call)
        if call.mask_q is not None and legal and call.mask_q not in legal:
            yield self.found(
                f"the mask has {call.mask_q} query rows but the call has {call.q} queries",
                severity=severity,
                call=call,
                mask_queries=call.mask_q,
                q=call.q,
            )
        rows = call.batch
        if call.mask_rank == 4 and rows is not None and call.mask_batch not in (None, 1, rows, _folded(call)):
            yield self.found(
                f"the mask has {call.mask_batch} batch entries but the batch has {rows} rows",
                severity=severity,
                call=call,
                mask_batch=call.mask_batch,
                batch=rows,
            )


def _query_lengths(call: Call) -> set[int]:
    if call.q is None:
        return set()
    fed = [row.padded or row.tokens or 0 for row in call.entry.rows or []]
    return {1, call.q, sum(fed)} if call.cache == "paged" else {1, call.q}


def _folded(call: Call) -> int | None:
    """Rows of one query that all tokens make, where a layer's calls have one query each."""
    if call.q != 1:
        return None
    widths = [row.padded if row.padded is not None else row.tokens for row in call.entry.rows or ()]
    return None if None in widths else sum(width for width in widths if width is not None)
