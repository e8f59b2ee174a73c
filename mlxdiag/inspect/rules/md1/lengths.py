"""MD109: lengths that cannot be."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec import UNSET

from mlxdiag.inspect.call import Call
from mlxdiag.inspect.findings import Finding
from mlxdiag.inspect.rule import Rule
from mlxdiag.inspect.run import Run


class NonPositiveLength(Rule):
    """A mask axis, a key count or a cache index of zero or less although keys exist.

    A count went below its own start: an offset that begins at -left_padding used as a length, a trim by
    more than the ring's index, a restored offset larger than its buffer, a filter on an empty cache.
    Left-padded rows legally have negative *positions*; lengths and cursors never are.

    What to do: find the subtraction. Lengths come from the cache's own count of keys, positions from the row.

    Seen in: lablup/mlxcel#76; ml-explore/mlx-lm#798, #1736; waybarrios/vllm-mlx#296; ollama/ollama#14912.
    """

    code = "MD109"
    name = "non-positive-length"
    absorbs = ("MD901", "MD101", "MD102")
    fires = (
        """
steps:
- {rows: [{offset: 8, tokens: 4}], attention: [{family: full, k: 12, mask: [1, 1, 4, 0]}]}
""",
        """
steps:
- {rows: [{offset: 8, tokens: 1}], attention: [{family: full, k: 0}]}
""",
        # The write index of a ring after a trim by more than it held.
        """
steps:
- {phase: trim, rows: [{seq: a, asked: 4, done: 4}], attention: [{family: sliding, cursor: -2}]}
""",
    )
    quiet = (
        # Left padding: the short row's positions start below zero, the batch's cursor does not.
        """
steps:
- {rows: [{seq: a, left_padding: 0}, {seq: b, left_padding: 5}],
   attention: [{family: full, cache: batch, offset: [0, -5], cursor: 0, q: 8, k: 8, mask: [2, 1, 8, 8]}]}
""",
        # The same of a single row, on a cache of fixed size.
        """
steps:
- {rows: [{seq: a, tokens: 11, left_padding: 9}], attention: [{family: full, cache: static, offset: -9,
   cursor: 0, buffer: 24, q: 20, k: 24, mask: [1, 1, 20, 24], builder: padded}]}
""",
        # An empty cache is no fault.
        """
steps:
- {rows: [{offset: 0, tokens: 8}], attention: [{family: full, live: 0, buffer: 0, k: 8, mask: causal}]}
""",
    )

    def on_call(self, call: Call, run: Run) -> Iterator[Finding]:
        a = call.attention
        wrong: dict[str, Any] = {}
        mask = a.mask
        if mask is not UNSET and isinstance(mask, tuple) and call.q != 0 and any(axis <= 0 for axis in mask):
            wrong["mask"] = list(mask)
        keys = call.ks if call.ks is not None else [call.k] if call.k is not None else []
        if call.q and keys and min(keys) <= 0:
            wrong["returned_keys"] = a.k
        if a.cursor is not None and a.cursor < 0:
            wrong["cursor"] = a.cursor
        # Behind left padding a row starts below zero, and its cursor does not.
        behind = call.cache in ("batch", "batch_rotating") or (a.cursor is not None and a.cursor >= 0)
        if isinstance(a.offset, int) and a.offset < 0 and not behind:
            wrong["offset"] = a.offset
        if a.live is not None and a.live < 0:
            wrong["live"] = a.live
        if a.buffer is not None and a.buffer <= 0 and (call.cursor or 0) > 0:
            wrong["buffer"] = a.buffer
        if wrong:
            said = ", ".join(f"{name} is {value}" for name, value in wrong.items())
            yield self.found(f"{said}: no length or cache index can be that", call=call, **wrong)
