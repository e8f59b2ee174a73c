"""MD501: left padding that no mask blocks."""

from __future__ import annotations

from collections.abc import Iterator

from mlxdiag.inspect.call import Call
from mlxdiag.inspect.effect import ARRAY, CAUSAL, NONE, WINDOWED, in_effect
from mlxdiag.inspect.findings import Finding
from mlxdiag.inspect.rule import Rule
from mlxdiag.inspect.run import Run


class LeftPaddingUnmasked(Rule):
    """A left-padded row whose padding is still among the keys, under a mask that cannot block it.

    Rows of different length are padded on the left. Only a mask with a batch axis can block one row's padding
    and not another's; causal, windowed and no mask at all let the shorter rows attend their padding. A ring
    drops the padding as it turns, after which nothing needs to be blocked.

    What to do: build batch masks from `left_padding`, in decode too.

    Seen in: lablup/mlxcel#76; ml-explore/mlx-lm#439, #1736, #1908; Blaizzy/mlx-vlm#1542, #1946;
    unslothai/unsloth#4083.
    """

    code = "MD501"
    name = "left-padding-unmasked"
    absorbs = ("MD304",)
    fires = (
        """
steps:
- {phase: decode, rows: [{seq: a, left_padding: 0, tokens: 1}, {seq: b, left_padding: 5, tokens: 1}],
   attention: [{family: full, cache: batch, offset: [20, 15], cursor: 20, q: 1, k: 21, mask: null}]}
""",
        # A loop that forgets the mask after its first forward: the caches alone count the padding.
        """
steps:
- {phase: decode, rows: [{seq: a, offset: 20, tokens: 1}, {seq: b, offset: 15, tokens: 1}],
   attention: [{family: full, cache: batch, offset: [20, 15], cursor: 20, q: 1, k: 21, mask: null}]}
""",
        # An array, but the same for every row.
        """
steps:
- {rows: [{seq: a, left_padding: 0, tokens: 8}, {seq: b, left_padding: 5, tokens: 3, padded: 8}],
   attention: [{family: full, cache: batch, offset: [0, -5], cursor: 0, q: 8, k: 8, mask: [8, 8]}]}
""",
    )
    quiet = (
        """
steps:
- {phase: decode, rows: [{seq: a, left_padding: 0, tokens: 1}, {seq: b, left_padding: 5, tokens: 1}],
   attention: [{family: full, cache: batch, offset: [20, 15], cursor: 20, q: 1, k: 21, mask: [2, 1, 1, 21]}]}
""",
        # Causal, with a row of its own for each sequence.
        """
steps:
- {rows: [{seq: a, left_padding: 0, tokens: 8}, {seq: b, left_padding: 5, tokens: 3, padded: 8}],
   attention: [{family: full, cache: batch, offset: [0, -5], cursor: 0, q: 8, k: 8, mask: [2, 1, 8, 8],
    builder: padded}]}
""",
        # A single prompt, padded to a fixed length: one row's mask serves it.
        """
steps:
- {rows: [{seq: a, offset: 0, tokens: 11, left_padding: 9}], attention: [{family: full, cache: batch,
   offset: -9, cursor: 0, q: 20, k: 20, mask: [1, 1, 20, 20], builder: padded}]}
""",
        # The ring has turned: 40 tokens through 16 slots, the padding is gone.
        """
model: {layers: {sliding: {attention: sliding, window: 16}}}
steps:
- {phase: decode, rows: [{seq: a, left_padding: 0, tokens: 1}, {seq: b, left_padding: 5, tokens: 1}],
   attention: [{family: sliding, cache: batch_rotating, offset: [40, 35], cursor: 40, q: 1, k: 16, mask:
   null}]}
""",
        # The same after a wrap that drives the count of padding below zero.
        """
steps:
- {phase: decode, rows: [{seq: a, left_padding: -20, tokens: 1}, {seq: b, left_padding: -15, tokens: 1}],
   attention: [{family: full, cache: batch, q: 1, k: 16, mask: null}]}
""",
    )

    def on_call(self, call: Call, run: Run) -> Iterator[Finding]:
        padded = _still_padded(call)
        if not padded or call.kind == "recurrent" or call.cache == "paged":
            return
        mask = in_effect(call)
        padding = _padding(call)
        alike = len(set(padding)) == 1
        if mask == ARRAY:
            shared = call.mask_rank < 3 or (call.mask_batch == 1 and not call.bias)
            if not shared or alike:
                return
            said = "a mask without a batch axis"
        elif call.builder == "padded" and mask != NONE and (alike or (call.mask_batch or 1) > 1):
            return
        elif mask in (CAUSAL, WINDOWED, NONE) and call.fate != "rebuilt":
            said = {CAUSAL: "plain causal", WINDOWED: "a windowed mask for all rows", NONE: "no mask"}[mask]
        else:
            return
        yield self.found(
            f"{said}, but {len(padded)} of {call.batch} rows still hold left padding (rows "
            f"{', '.join(map(str, padded[:8]))})",
            call=call,
            rows=padded[:32],
            left_padding=[padding[row] for row in padded[:32]],
        )


def _still_padded(call: Call) -> list[int]:
    """Rows whose padding is among the returned keys: a ring that returned fewer has dropped the oldest."""
    dropped = 0
    if call.cursor is not None and call.q is not None and call.k is not None:
        dropped = max(call.cursor + call.q - call.k, 0)
    return [index for index, padding in enumerate(_padding(call)) if padding > dropped]


def _padding(call: Call) -> list[int]:
    """Left padding of each row; where only the caches know it, what their count of columns has before it."""
    offsets = call.attention.offset if isinstance(call.attention.offset, list) else []
    counted = [call.cursor - offset for offset in offsets] if call.cursor is not None else []
    rows = call.entry.rows or []
    if len(counted) != len(rows):
        counted = [0] * len(rows)
    return [
        row.left_padding if row.left_padding is not None else before
        for row, before in zip(rows, counted, strict=True)
    ]
