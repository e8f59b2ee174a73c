"""MD104: a mask that was dropped."""

from __future__ import annotations

from collections.abc import Iterator

from mlxdiag.inspect.call import Call
from mlxdiag.inspect.effect import fallback_is_right
from mlxdiag.inspect.findings import SEVERITIES, Finding
from mlxdiag.inspect.rule import Rule
from mlxdiag.inspect.rules.md1.key_axis import long_severity, short_severity
from mlxdiag.inspect.run import Run


class MaskDiscarded(Rule):
    """The consumer says that it dropped the mask it was given, on a call of several queries.

    Suspect, not wrong by itself: whether attention changed depends on what it fell back to. It is never
    reported above the mismatch (MD101) that made the consumer drop the mask.

    What to do: replay with `--misfit discard:windowed,discard:causal,rebuild` and compare.

    Seen in: lablup/mlxcel#885 ("mask shorter than key length, discarding caller mask").
    """

    code = "MD104"
    name = "mask-discarded"
    severity = "warning"
    absorbs = ("MD101", "MD102", "MD103")
    hint = "mlxdiag replay {trace} --misfit discard:windowed,discard:causal,rebuild"
    fires = (
        # A log that names the drop and nothing else.
        """
steps:
- {rows: [{offset: 2048, tokens: 160}], attention: [{family: sliding, fate: discarded}]}
""",
        """
model: {layers: {full: {attention: full}}}
steps:
- {rows: [{offset: 2048, tokens: 160}], attention: [{family: full, k: 2208, mask: [160, 160], fate: discarded,
   fallback: causal}]}
""",
    )
    quiet = (
        # One query: nothing to lose in the query axis, and the ring holds the window.
        """
model: {layers: {sliding: {attention: sliding, window: 8}}}
steps:
- {rows: [{offset: 20, tokens: 1}], attention: [{family: sliding, k: 8, mask: [1, 4], fate: discarded,
   fallback: none}]}
""",
        """
steps:
- {rows: [{offset: 2048, tokens: 160}], attention: [{family: full, k: 2208, mask: [160, 2208], fate: used}]}
""",
    )

    def on_call(self, call: Call, run: Run) -> Iterator[Finding]:
        if call.fate != "discarded" or call.q is None or call.q <= 1:
            return
        cap = short_severity(call) or long_severity(call)
        severity = "info" if fallback_is_right(call) and cap is None else "warning"
        if cap is not None and SEVERITIES.index(cap) < SEVERITIES.index(severity):
            severity = cap
        fallback = (
            f"fell back to {call.fallback}" if call.fallback else "what it fell back to was not observed"
        )
        yield self.found(
            f"the consumer dropped the mask of a call of {call.q} queries; {fallback}",
            severity=severity,
            call=call,
            fallback=call.fallback,
        )
