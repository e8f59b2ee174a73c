"""MD108: a sliding layer that attends like a full one."""

from __future__ import annotations

from collections.abc import Iterator

from mlxdiag.inspect.call import Call
from mlxdiag.inspect.effect import CAUSAL, NONE, in_effect
from mlxdiag.inspect.findings import Finding
from mlxdiag.inspect.rule import Rule
from mlxdiag.inspect.run import Run


class WindowNotEnforced(Rule):
    """A sliding layer without a windowed mask, on more keys than its window.

    Only a mask, or a cache that returns no more than the window, can enforce a window. With no mask or plain
    causal the last query sees every key returned. Below the window nothing shows, so short tests pass.

    A mask that is known to be plain causal (or padded causal) counts as such although it is an array: a
    caller's, or one that the library made for another kind of layer (transformers makes one mask for each
    kind, and Moshi's sliding layers are given the full layers' one).

    What to do: give sliding layers their own mask, built from their own cache.

    Seen in: lablup/mlxcel#1204 and its dense families at decode; Blaizzy/mlx-vlm#669; ml-explore/mlx-lm#390;
    sgl-project/sglang#4823, #30050; vllm-project/vllm#2064; labscommunity/cascadia#151.
    """

    code = "MD108"
    name = "window-not-enforced"
    absorbs = ("MD101", "MD102", "MD302")
    hint = "mlxdiag replay {trace} --misfit discard:causal,rebuild"
    fires = (
        # Plain causal over a chunk that crosses the window.
        """
model: {layers: {sliding: {attention: sliding, window: 512}}}
steps:
- {rows: [{offset: 512, tokens: 512}], attention: [{family: sliding, k: 1023, mask: causal}]}
""",
        # Decode on a dense cache, no mask: the whole past is visible.
        """
model: {layers: {sliding: {attention: sliding, cache: dense, window: 512}}}
steps:
- {rows: [{offset: 700, tokens: 1}], attention: [{family: sliding, k: 701, mask: null}]}
""",
        # The caller's causal mask kept on a sliding layer: the lengths are right, the band is missing.
        """
model: {layers: {sliding: {attention: sliding, window: 512}}}
steps:
- {rows: [{offset: 511, tokens: 160}], mask: {shape: [160, 671], offset: 511, builder: causal},
   attention: [{family: sliding, k: 671, mask: [160, 671], fate: used}]}
""",
        # The mask that the library made for full layers, on a sliding one.
        """
model: {layers: {sliding: {attention: sliding, window: 512}}}
steps:
- {rows: [{offset: 512, tokens: 160}], attention: [{family: sliding, k: 671, mask: [1, 1, 160, 671],
   builder: causal}]}
""",
        """
model: {layers: {sliding: {attention: sliding, cache: dense, window: 512}}}
steps:
- {rows: [{offset: 600, tokens: 160}], attention: [{family: sliding, offset: 600, q: 160, k: 760,
   mask: [1, 1, 160, 760], builder: padded}]}
""",
    )
    quiet = (
        # The library's own causal mask, while everything fits into the window.
        """
model: {layers: {sliding: {attention: sliding, window: 512}}}
steps:
- {rows: [{offset: 352, tokens: 160}], attention: [{family: sliding, k: 512, mask: [1, 1, 160, 512],
   builder: causal}]}
""",
        # A single query on a ring holds at most W keys.
        """
model: {layers: {sliding: {attention: sliding, window: 512}}}
steps:
- {rows: [{offset: 2201, tokens: 1}], attention: [{family: sliding, k: 512, mask: null}]}
""",
        # Causal is enough while everything fits into the window.
        """
model: {layers: {sliding: {attention: sliding, window: 512}}}
steps:
- {rows: [{offset: 0, tokens: 512}], attention: [{family: sliding, k: 512, mask: causal}]}
""",
        # No mask, because the layer applies its own windowed band.
        """
model: {layers: {sliding: {attention: sliding, window: 512}}}
steps:
- {rows: [{offset: 512, tokens: 512}], attention: [{family: sliding, k: 1023, mask: null,
   fallback: windowed}]}
""",
        # An array may hold any band.
        """
model: {layers: {sliding: {attention: sliding, window: 512}}}
steps:
- {rows: [{offset: 512, tokens: 512}], attention: [{family: sliding, k: 1023, mask: [512, 1023]}]}
""",
    )

    def on_call(self, call: Call, run: Run) -> Iterator[Finding]:
        window, q = call.window, call.q
        if call.kind != "sliding" or window is None or q is None or call.cache == "static":
            return
        mask = in_effect(call)
        held = call.k if call.k is not None else max(call.ks, default=None) if call.ks else None
        if mask not in (CAUSAL, NONE) or held is None or held <= window:
            return
        wide = q if mask == NONE else min(q, held - window)
        yield self.found(
            f"{_said(call, mask)} on {held} keys of a layer with window {window}: {wide} of {q} queries see "
            "more than the window",
            call=call,
            window=window,
            returned_keys=held,
            q=q,
            queries_beyond=wide,
        )


def _said(call: Call, mask: str) -> str:
    if call.fate == "discarded":
        return f"the mask was dropped for {'plain causal' if mask == CAUSAL else 'none'}"
    if call.mask_kind == "array":
        return f"a {call.builder} mask without a window"
    return "plain causal" if mask == CAUSAL else "no mask"
