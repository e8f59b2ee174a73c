"""MD111: a padding mask that does not reach the newest tokens."""

from __future__ import annotations

from collections.abc import Iterator

from mlxdiag.inspect.call import Call
from mlxdiag.inspect.findings import Finding
from mlxdiag.inspect.rule import Rule
from mlxdiag.inspect.run import Run


class PaddingMaskTooShort(Rule):
    """The 2-D padding mask has fewer columns than there are tokens, held and new.

    transformers wants one column for every token of the sequence, and fills up what is missing on the right
    with False. A mask of the new tokens alone therefore hides the newest keys: a chunk of five at offset 12
    sees positions 0 to 4 on full layers and nothing at all on sliding ones. The mask that comes out of it has
    the right shape, and no error is raised. A mask that is too long does no harm.

    What to do: append to the mask of the tokens before (`torch.cat([mask, ones], dim=-1)`), or pass none
    where nothing is padded.

    Seen in: transformers 5.24, `masking_utils.prepare_padding_mask`, under chunked prefill and under decode
    steps that pass a mask of length 1.
    """

    code = "MD111"
    name = "padding-mask-too-short"
    absorbs = ("MD301", "MD302", "MD305", "MD401", "MD402")
    hint = "mlxdiag replay {trace}"
    fires = (
        # A chunk's own mask.
        """
steps:
- {rows: [{offset: 12, tokens: 5}], attention: [{family: full, k: 17, mask: [1, 1, 5, 17], key_padding: 5}]}
""",
        # The same with everything else recorded, and right.
        """
model: {layers: {full: {attention: full, cache: dense}}}
steps:
- {rows: [{offset: 12, tokens: 5}], attention: [{family: full, offset: 12, q: 5, k: 17, mask: [1, 1, 5, 17],
   key_padding: 5}]}
""",
        # One token of one column.
        """
model: {layers: {sliding: {attention: sliding, window: 8}}}
steps:
- {rows: [{offset: 12, tokens: 1}], attention: [{family: sliding, k: 8, mask: [1, 1, 1, 8], key_padding: 1}]}
""",
    )
    quiet = (
        """
steps:
- {rows: [{offset: 12, tokens: 5}], attention: [{family: full, k: 17, mask: [1, 1, 5, 17], key_padding: 17}]}
""",
        # Longer than needed: the rest is never looked at.
        """
steps:
- {rows: [{offset: 12, tokens: 5}], attention: [{family: full, k: 17, mask: [1, 1, 5, 17], key_padding: 30}]}
""",
        # A static buffer is wider than the tokens in it, and its tail is hidden anyway.
        """
steps:
- {rows: [{offset: 12, tokens: 5}], attention: [{family: full, cache: static, buffer: 64, k: 64,
   mask: [1, 1, 5, 64], key_padding: 17}]}
""",
    )

    def on_call(self, call: Call, run: Run) -> Iterator[Finding]:
        columns, q, cursor = call.attention.key_padding, call.q, call.cursor
        if columns is None or q is None or cursor is None or call.cache == "paged":
            return
        needed = cursor + q
        if columns >= needed:
            return
        mask = "1 column" if columns == 1 else f"{columns} columns"
        yield self.found(
            f"the padding mask has {mask} for {needed} tokens ({cursor} held, {q} new): the newest "
            f"{needed - columns} are hidden from every query",
            call=call,
            columns=columns,
            needed=needed,
            hidden=needed - columns,
        )
