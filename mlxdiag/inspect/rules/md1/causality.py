"""MD112: several queries, and nothing that hides from each the tokens after it."""

from __future__ import annotations

from collections.abc import Iterator

from mlxdiag.inspect.call import Call
from mlxdiag.inspect.effect import NONE, in_effect
from mlxdiag.inspect.facts import looks_ahead
from mlxdiag.inspect.findings import Finding
from mlxdiag.inspect.rule import Rule
from mlxdiag.inspect.run import Run

KINDS = ("full", "sliding", "chunked")


class CausalityNotEnforced(Rule):
    """Several queries at once, no mask, and nothing in the attention function that is causal by itself.

    Every query but the last then reads tokens that come after it, which it has yet to predict. A single query
    needs no mask, so decoding goes on as if nothing were wrong, over keys that were computed wrongly. All
    lengths are right, and no error is raised.

    "causal" is no missing mask: the kernel hides later keys itself, and so a library hands it no array. A
    mask that was not observed is none either, and packed rows may keep their bounds elsewhere. A model whose
    config says that it looks ahead (`use_bidirectional_attention`, `is_causal: false`) does so rightly.

    What to do: find out who lost the mask, or the flag that makes the kernel causal (`is_causal` of the
    attention module on transformers, `mask="causal"` on MLX).

    Seen in: the deepseek_v3 prefill of mlxcel (#618, #667): no mask where the caller gave none.
    """

    code = "MD112"
    name = "causality-not-enforced"
    absorbs = ("MD108", "MD302", "MD303", "MD304", "MD402", "MD501")
    hint = "mlxdiag replay {trace}"
    fires = (
        # A whole prompt, every query of which sees all of it.
        """
model: {layers: {full: {attention: full}}}
steps:
- {rows: [{offset: 0, tokens: 43}], attention: [{family: full, k: 43, mask: null}]}
""",
        # The same with everything recorded, and every length right.
        """
model: {layers: {full: {attention: full, cache: dense}}}
steps:
- {rows: [{offset: 12, tokens: 5}], attention: [{family: full, cache: dense, offset: 12, q: 5, k: 17,
   mask: null}]}
""",
        # Within the window, where no rule about windows can see anything.
        """
model: {layers: {sliding: {attention: sliding, window: 512}}}
steps:
- {rows: [{offset: 0, tokens: 9}], attention: [{family: sliding, offset: 0, q: 9, k: 9, mask: null}]}
""",
        # Beyond it: the window is lost as well, for the same reason.
        """
model: {layers: {sliding: {attention: sliding, window: 16}}}
steps:
- {rows: [{offset: 0, tokens: 43}], attention: [{family: sliding, k: 43, mask: null}]}
""",
        # Left padding is the lesser evil.
        """
model: {layers: {full: {attention: full}}}
steps:
- {rows: [{offset: 0, tokens: 7}, {offset: -3, tokens: 4, left_padding: 3}], attention: [{family: full,
   cache: batch, offset: [0, -3], cursor: 0, q: 7, k: 7, mask: null}]}
""",
    )
    quiet = (
        # One query has nothing after it.
        """
model: {layers: {full: {attention: full}}}
steps:
- {rows: [{offset: 0, tokens: 1}], attention: [{family: full, q: 1, k: 1, mask: null}]}
- {rows: [{offset: 1, tokens: 1}], attention: [{family: full, q: 1, k: 2, mask: null}]}
""",
        # Rows of one token each, in one call of one query.
        """
model: {layers: {full: {attention: full}}}
steps:
- {rows: [{offset: 0, tokens: 1}, {offset: 0, tokens: 1}], attention: [{family: full, q: 1, k: 1,
   mask: null}]}
""",
        # The kernel is causal by itself.
        """
model: {layers: {full: {attention: full}}}
steps:
- {rows: [{offset: 0, tokens: 43}], attention: [{family: full, q: 43, k: 43, mask: causal}]}
""",
        # No mask, because the layer applies its own windowed band.
        """
model: {layers: {sliding: {attention: sliding, window: 16}}}
steps:
- {rows: [{offset: 0, tokens: 43}], attention: [{family: sliding, q: 43, k: 43, mask: null,
   fallback: windowed}]}
""",
        # Not observed, as where a softmax is computed by hand.
        """
model: {layers: {full: {attention: full}}}
steps:
- {rows: [{offset: 0, tokens: 43}], attention: [{family: full, q: 43, k: 43}]}
""",
        # Packed rows of one token each.
        """
model: {layers: {full: {attention: full}}}
steps:
- {rows: [{offset: 4, tokens: 1}, {offset: 9, tokens: 1}], attention: [{family: full, cache: paged, q: 2,
   k: [5, 10], mask: null}]}
""",
        # A model that is meant to look ahead.
        """
model: {config: {use_bidirectional_attention: true}, layers: {full: {attention: full}}}
steps:
- {rows: [{offset: 0, tokens: 43}], attention: [{family: full, q: 43, k: 43, mask: null}]}
""",
        # A recurrent layer reads its tokens in order, whatever it is given.
        """
model: {layers: {recurrent: {attention: recurrent}}}
steps:
- {rows: [{offset: 0, tokens: 43}], attention: [{family: recurrent, offset: 0, q: 43, mask: null}]}
""",
        # Of a mask that was dropped, MD101 and MD104 say what became of it.
        """
model: {layers: {full: {attention: full}}}
steps:
- {rows: [{offset: 2048, tokens: 160}], attention: [{family: full, k: 2208, mask: [160, 160], fate: discarded,
   fallback: none}]}
""",
    )

    def on_call(self, call: Call, run: Run) -> Iterator[Finding]:
        q, held = call.q, call.k
        if q is None or q <= 1 or held is None or call.kind not in KINDS or call.cache == "paged":
            return
        if call.fate == "discarded" or in_effect(call) != NONE:
            return
        if run.model is not None and looks_ahead(run.model.config):
            return
        seen = call.attention.totals
        if seen is not None and not seen.get("future"):
            return
        yield self.found(
            f"no mask on {held} keys for {q} queries, and no causal kernel: {q - 1} of {q} queries see the "
            "tokens after them",
            call=call,
            returned_keys=held,
            q=q,
            queries_ahead=q - 1,
        )
