"""MD201 and MD211: the keys that a cache hands back."""

from __future__ import annotations

from collections.abc import Iterator

from mlxdiag.inspect.call import Call
from mlxdiag.inspect.findings import Finding
from mlxdiag.inspect.geometry import Bounds, returned_bounds
from mlxdiag.inspect.rule import Rule
from mlxdiag.inspect.run import Run


class ReturnedKeysBreakContract(Rule):
    """A cache returned more or fewer keys than its kind must.

    A mask, a position or a window that fits such keys is a coincidence. The usual faults: a sliding
    cache that clamps a continuation to the window (512 keys where 511 + 512 are needed: the early
    queries lose their window), a physical buffer taken for the length, rows of a batch cut by another
    row's length.

    The contract counts with the cache's own cursor, not with a row's offset: in a batch the two differ
    by the left padding. A fresh rotating cache returns all keys of its first call, even past the
    window; a buffered one may return up to `W + max(slack, q)`.

    What to do: size masks from what the cache returns, and keep `W - 1` prior keys on a continuation.

    Seen in: lablup/mlxcel#405, #679, #1776; ml-explore/mlx-examples#1000, #1093; transformers#37574;
    Lightning-AI/litgpt#2153; EricLBuehler/mistral.rs#246.
    """

    code = "MD201"
    name = "returned-keys-break-contract"
    absorbs = ("MD101", "MD102", "MD302", "MD305", "MD402")
    hint = "mlxdiag replay {trace}"
    fires = (
        """\
model: {layers: {sliding: {attention: sliding, window: 512}, full: {attention: full}}}
steps:
- {step: 2, rows: [{seq: a, offset: 512, tokens: 512}], attention: [{family: sliding,
    offset: 512, q: 512, k: 512}]}
""",
        """\
steps:
- {attention: [{family: full, offset: 301, q: 7, k: 563}]}
""",
        """\
model: {layers: {sliding: {attention: sliding, window: 512}, full: {attention: full}}}
steps:
- {attention: [{family: sliding, offset: 600, q: 1, k: 513}]}
""",
    )
    quiet = (
        """\
model: {layers: {sliding: {attention: sliding, window: 512}, full: {attention: full}}}
steps:
- {attention: [{family: sliding, offset: 2048, q: 160, k: 671}, {family: full, offset: 2048,
    q: 160, k: 2208}]}
""",
        # A fresh ring keeps the whole first call.
        """\
model: {layers: {sliding: {attention: sliding, window: 512}, full: {attention: full}}}
steps:
- {attention: [{family: sliding, offset: 0, q: 1511, k: 1511}]}
""",
        # The cursor of a batch counts the padding that its rows' offsets do not.
        """\
steps:
- {rows: [{seq: a, tokens: 1}, {seq: b, tokens: 1}], attention: [{family: full, cache: batch,
    offset: [3, 9], cursor: 9, q: 1, k: 10, mask: [2, 1, 1, 10]}]}
""",
        # Speculation: 8 + 2 keys, although the window needs 9.
        """\
model: {layers: {sliding: {attention: sliding, cache: buffered, window: 8, slack: 32}}}
steps:
- {attention: [{family: sliding, offset: 8, q: 2, k: 10}]}
""",
    )

    def on_call(self, call: Call, run: Run) -> Iterator[Finding]:
        if call.entry.error is not None and call.k is None:
            return
        bounds = contract(call)
        if bounds is None or call.k is None or bounds[0] <= call.k <= bounds[1]:
            yield from self._packed(call)
            return
        must = str(bounds[0]) if bounds[0] == bounds[1] else f"{bounds[0]} to {bounds[1]}"
        yield self.found(
            f"the {call.cache} cache returned {call.k} keys for {call.q} new tokens at"
            f" {call.cursor}, not {must}",
            call=call,
            k=call.k,
            expected=bounds[0] if bounds[0] == bounds[1] else list(bounds),
            q=call.q,
            cursor=call.cursor,
            window=call.bound,
        )

    def _packed(self, call: Call) -> Iterator[Finding]:
        """Packed rows of a paged cache, each with a length of its own."""
        rows = call.entry.rows or []
        if (
            call.cache != "paged"
            or not call.ks
            or not call.offsets
            or not len(rows) == len(call.ks) == len(call.offsets)
        ):
            return
        for row, k, offset in zip(rows, call.ks, call.offsets, strict=True):
            fed = row.padded if row.padded is not None else row.tokens
            bounds = None if fed is None else returned_bounds("paged", fed, offset, window=call.bound)
            if bounds is not None and not bounds[0] <= k <= bounds[1]:
                yield self.found(
                    f"the paged cache returned {k} keys for {fed} new tokens at {offset}, not {bounds[1]}",
                    call=call,
                    seq=row.seq,
                    k=k,
                    expected=bounds[1],
                )


class StaleTailRead(Rule):
    """A consumer read the raw buffer, past the last token of the sequence.

    The slots behind the offset are spare room, or tokens that were trimmed, or what another request
    left there: a layer that borrows an earlier layer's keys and takes the buffer instead of the live
    part attends to them, and may quote them. Static caches hand out their whole buffer by design and
    mask its tail.

    What to do: slice the buffer to the offset before anybody reads it; treat a report as a privacy
    incident.

    Seen in: waybarrios/vllm-mlx#384, #385.
    """

    code = "MD211"
    name = "stale-tail-read"
    absorbs = ("MD201",)
    hint = "mlxdiag replay {trace}"
    fires = (
        """\
steps:
- {attention: [{family: full, cache: dense, offset: 300, buffer: 512, q: 1, k: 512}]}
""",
    )
    quiet = (
        """\
steps:
- {attention: [{family: full, cache: dense, offset: 300, buffer: 512, q: 1, k: 301}]}
""",
        # The buffer is full: all of it is live.
        """\
steps:
- {attention: [{family: full, cache: dense, offset: 511, buffer: 512, q: 1, k: 512}]}
""",
        """\
steps:
- {attention: [{family: full, cache: static, offset: 300, buffer: 512, q: 1, k: 512}]}
""",
    )

    def on_call(self, call: Call, run: Run) -> Iterator[Finding]:
        bounds = contract(call)
        buffer = call.attention.buffer
        if bounds is None or buffer is None or call.k is None:
            return
        if call.k == buffer and buffer > bounds[1]:
            yield self.found(
                f"{call.k} keys are the whole buffer, {buffer - bounds[1]} slots past the last token;"
                " what they hold may be another request's",
                call=call,
                buffer=buffer,
                stale=buffer - bounds[1],
            )


def contract(call: Call) -> Bounds | None:
    """Legal key counts of a call; None where too little was observed."""
    if call.cache is None or call.q is None or call.cursor is None or call.cursor < 0:
        return None
    recorded = call.attention.live is not None or call.attention.live_start is not None
    bounds = returned_bounds(
        call.cache,
        call.q,
        call.cursor,
        window=call.bound,
        keep=call.keep,
        slack=call.slack,
        live=call.live if recorded else None,
        buffer=call.attention.buffer,
    )
    if bounds is not None and call.live is not None and not call.live_known:
        # A key cap that may or may not have acted before this call.
        bounds = (min(bounds[0], call.live + call.q), bounds[1])
    return bounds
