"""MD110: scaled-dot-product attention without a mask, on more keys than queries."""

from __future__ import annotations

from collections.abc import Iterator

from mlxdiag.inspect.call import Call
from mlxdiag.inspect.effect import OLDEST
from mlxdiag.inspect.findings import Finding
from mlxdiag.inspect.rule import Rule
from mlxdiag.inspect.run import Run


class NewestKeysCut(Rule):
    """Several queries without a mask, and the keys were cut to the first `q`: the newest are lost.

    The sdpa attention of transformers reads "no mask" as "causal from the upper left", and so cuts keys and
    values to as many as there are queries. That is right for the first call on a static cache, whose buffer
    is longer than what it holds, and nowhere else: on a continuation every query attends to the start of the
    sequence, and none to itself. Nothing is said and no shape is wrong; an eager model would throw.

    What to do: find out why there is no mask. It is left out where the mask's own lengths say that plain
    causal is enough, so a mask made for the chunk alone, at offset 0, ends like this; so does an attention
    implementation that no mask function is registered for.

    Seen in: transformers 5.24, `integrations/sdpa_attention.py`, under a mask built at offset 0.
    """

    code = "MD110"
    name = "newest-keys-cut"
    absorbs = ("MD301", "MD302", "MD303", "MD305", "MD306", "MD402")
    hint = "mlxdiag replay {trace} --misfit strict,rebuild"
    fires = (
        # Five tokens at 12: the keys 0 to 4 are left of 17.
        """
model: {layers: {full: {attention: full}}}
steps:
- {rows: [{offset: 12, tokens: 5}], attention: [{family: full, k: 17, mask: null, fallback: oldest}]}
""",
        """
model: {layers: {sliding: {attention: sliding, window: 8}}}
steps:
- {rows: [{offset: 12, tokens: 5}], attention: [{family: sliding, k: 12, mask: null, fallback: oldest}]}
""",
        # A static cache that already holds something.
        """
steps:
- {rows: [{offset: 12, tokens: 5}], attention: [{family: full, cache: static, buffer: 64, k: 64, mask: null,
   fallback: oldest}]}
""",
    )
    quiet = (
        # The first call on a static cache: its own keys come first, zeros behind them.
        """
steps:
- {rows: [{offset: 0, tokens: 5}], attention: [{family: full, cache: static, buffer: 64, k: 64, mask: null,
   fallback: oldest}]}
""",
        # No mask that is read as no mask: one query sees everything.
        """
model: {layers: {full: {attention: full}}}
steps:
- {rows: [{offset: 12, tokens: 1}], attention: [{family: full, k: 13, mask: null}]}
""",
        # Plain causal over the call's own keys.
        """
model: {layers: {full: {attention: full}}}
steps:
- {rows: [{offset: 0, tokens: 5}], attention: [{family: full, k: 5, mask: causal}]}
""",
    )

    def on_call(self, call: Call, run: Run) -> Iterator[Finding]:
        q, k, cursor = call.q, call.k, call.cursor
        # Of a mask that was dropped, MD101 and MD104 say what became of it.
        if call.fallback != OLDEST or call.fate == "discarded" or call.mask_kind == "array":
            return
        if q is None or k is None or k <= q or not cursor:
            return
        yield self.found(
            f"no mask on {k} keys for {q} queries at offset {cursor}: the keys are cut to the first {q}, so "
            "no query sees itself or anything near it",
            call=call,
            returned_keys=k,
            q=q,
            offset=cursor,
            lost=k - q,
        )
