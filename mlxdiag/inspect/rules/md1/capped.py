"""MD107: a window mask cut to the window's width."""

from __future__ import annotations

from collections.abc import Iterator

from mlxdiag.inspect import geometry
from mlxdiag.inspect.call import Call
from mlxdiag.inspect.effect import SLICED, in_effect
from mlxdiag.inspect.findings import Finding
from mlxdiag.inspect.rule import Rule
from mlxdiag.inspect.rules.md1.key_axis import short_severity
from mlxdiag.inspect.run import Run


class CappedWindowMask(Rule):
    """A mask of W columns on a call whose queries span more than W keys.

    Such a mask is right for one query. For q queries only the last W keys have columns: the first `q - W`
    rows see no key at all (NaN with an additive mask on some kernels, an average of everything or of
    nothing on others), and up to W - 1 more see a narrowed window. Slicing K and V to the last W makes the
    lengths fit and the attention just as wrong.

    What to do: build `[q, kept + q]` with `kept = min(offset, W - 1)` and slice nothing.

    Seen in: lablup/mlxcel#401 (487 rows at 1511/1024), #412 (170 rows at 298/128), #413 (256 rows at
    768/512); huggingface/transformers#32522.
    """

    code = "MD107"
    name = "capped-window-mask"
    absorbs = ("MD101", "MD301", "MD302", "MD305", "MD401")
    hint = "mlxdiag replay {trace} --misfit strict,discard:sliced,rebuild"
    fires = (
        # gpt_oss, one pass of 298: 170 rows see nothing.
        """
model: {layers: {sliding: {attention: sliding, window: 128}}}
steps:
- {rows: [{offset: 0, tokens: 298}], attention: [{family: sliding, k: 298, mask: [298, 128]}]}
""",
        # Keys sliced to the window, so that the lengths fit.
        """
model: {layers: {sliding: {attention: sliding, cache: dense, window: 512}}}
steps:
- {rows: [{offset: 768, tokens: 768}], attention: [{family: sliding, k: 1536, mask: [768, 512],
   fallback: sliced}]}
""",
    )
    quiet = (
        # One query on a full ring: W columns are the window.
        """
model: {layers: {sliding: {attention: sliding, window: 128}}}
steps:
- {rows: [{offset: 298, tokens: 1}], attention: [{family: sliding, k: 128, mask: [1, 128]}]}
""",
        # The whole call fits into the window.
        """
model: {layers: {sliding: {attention: sliding, window: 128}}}
steps:
- {rows: [{offset: 0, tokens: 128}], attention: [{family: sliding, k: 128, mask: [128, 128]}]}
""",
        # W columns by chance: a full layer has no window.
        """
model: {layers: {sliding: {attention: sliding, window: 128}, full: {attention: full}}}
steps:
- {rows: [{offset: 64, tokens: 64}], attention: [{family: full, k: 128, mask: [64, 128]}]}
""",
    )

    def on_call(self, call: Call, run: Run) -> Iterator[Finding]:
        window, q, live = call.window, call.q, call.live
        if call.kind != "sliding" or window is None or q is None or live is None:
            return
        if q <= 1 or live + q <= window or not _capped(call, window):
            return
        empty, narrowed = geometry.empty_rows(q, window), geometry.narrowed_rows(q, live, window)
        severity = "error" if in_effect(call) == SLICED else short_severity(call) or "error"
        yield self.found(
            f"a mask of {window} columns for {q} queries: {empty} rows see no key and {narrowed} see "
            "less than their window",
            severity=severity,
            call=call,
            empty_rows=empty,
            narrowed_rows=narrowed,
            window=window,
            q=q,
        )


def _capped(call: Call, window: int) -> bool:
    """W columns on more keys, and not known to come from somewhere else; or the slice that goes with it."""
    if in_effect(call) == SLICED:
        return True
    if call.m != window or call.builder not in (None, "capped"):
        return False
    return short_severity(call) is not None or call.fallback == SLICED
