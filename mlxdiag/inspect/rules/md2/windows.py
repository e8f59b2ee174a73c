"""MD207: keys that went too early."""

from __future__ import annotations

from collections.abc import Iterator

from mlxdiag.inspect.call import Call
from mlxdiag.inspect.findings import Finding
from mlxdiag.inspect.rule import Rule
from mlxdiag.inspect.run import Run


class EvictedInsideWindow(Rule):
    """A cache dropped keys that the next query's window still needs.

    A sliding layer must still hold position `p - W + 1` for a query at p, a chunked one the first
    position of p's block; the width of the buffer says nothing, it is allocated in steps. Front trims
    on full layers are the user's own key cap, and are not judged here. Off by one is a warning:
    conventions of the window differ.

    What to do: evict by valid length and by the oldest query that is still to come.

    Seen in: Blaizzy/mlx-vlm#2031; ml-explore/mlx-lm#1673; sgl-project/sglang#8649, #34870.
    """

    code = "MD207"
    name = "evicted-inside-window"
    absorbs = ("MD201",)
    hint = "mlxdiag replay {trace}"
    fires = (
        """\
model: {layers: {chunked: {attention: chunked, window: 64}}}
steps:
- {attention: [{family: chunked, offset: 100, live_start: 80, q: 1, k: 21}]}
""",
        """\
model: {layers: {sliding: {attention: sliding, cache: dense, window: 64}}}
steps:
- {attention: [{family: sliding, offset: 100, live_start: 50, q: 1, k: 51}]}
""",
        """\
model: {layers: {sliding: {attention: sliding, cache: dense, window: 64}}}
steps:
- {attention: [{family: sliding, offset: 100, live_start: 38, q: 1, k: 63}]}
""",
    )
    quiet = (
        """\
model: {layers: {sliding: {attention: sliding, window: 64}}}
steps:
- {attention: [{family: sliding, offset: 100, live_start: 37, q: 1, k: 64}]}
""",
        """\
model: {layers: {chunked: {attention: chunked, window: 64}}}
steps:
- {attention: [{family: chunked, offset: 100, live_start: 64, q: 1, k: 37}]}
""",
        """\
scheduler: {max_kv: 64}
model: {layers: {full: {attention: full}}}
steps:
- {attention: [{family: full, offset: 100, live_start: 36, q: 1, k: 65}]}
""",
    )

    def on_call(self, call: Call, run: Run) -> Iterator[Finding]:
        start, cursor, window = call.attention.live_start, call.cursor, call.window
        if start is None or cursor is None or call.kind not in ("sliding", "chunked"):
            return
        if window is None or window < 1:
            return
        needed = max(0, cursor - window + 1) if call.kind == "sliding" else cursor // window * window
        if start > needed:
            yield self.found(
                f"the oldest key held is {start}, but the query at {cursor} needs {needed}",
                severity="warning" if start == needed + 1 else "error",
                call=call,
                oldest=start,
                needed=needed,
                window=window,
            )
