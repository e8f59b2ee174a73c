"""MD105 and MD106: the offset a mask was built with, as the cause of its wrong length."""

from __future__ import annotations

from collections.abc import Iterator

from mlxdiag.inspect.call import Call
from mlxdiag.inspect.effect import benign_verify
from mlxdiag.inspect.findings import Finding
from mlxdiag.inspect.rule import Rule
from mlxdiag.inspect.rules.md1.key_axis import COMPARE, long_severity, short_severity
from mlxdiag.inspect.run import Run


class MaskFromStaleOffset(Rule):
    """The mask was built with an offset that is none of the cache's own.

    Schedulers keep their own count of a sequence, or ask a cache that is not the one in use: an empty pool
    entry answers 0 while the model's own cache stands at 2048. The mask then fits the chunk alone. Where
    the trace records the offset the mask was built with, it is compared with the cursor, the row offsets,
    the live length and the kept length; otherwise a mask as long as the chunk, on keys that hold more, says
    the same.

    What to do: take the offset from the cache that will be updated.

    Seen in: lablup/mlxcel#885 (offset 0 against 2048), 57b62a1; ml-explore/mlx-swift-lm#27.
    """

    code = "MD105"
    name = "mask-from-stale-offset"
    absorbs = ("MD101", "MD102")
    hint = COMPARE
    fires = (
        # Recorded: built at 0, the cache stands at 2048.
        """
steps:
- {rows: [{offset: 2048, tokens: 153, padded: 160}], mask: {shape: [160, 160], offset: 0},
   attention: [{family: full, k: 2208, mask: [160, 160]}]}
""",
        # Derived: the mask is as long as the padded chunk.
        """
steps:
- {rows: [{offset: 2048, tokens: 153, padded: 160}], attention: [{family: full, k: 2208, mask: [160, 160]}]}
""",
    )
    quiet = (
        # The first chunk of a sequence: offset 0 is the cache's own.
        """
steps:
- {rows: [{offset: 0, tokens: 160}], mask: {shape: [160, 160], offset: 0},
   attention: [{family: full, k: 160, mask: [160, 160]}]}
""",
        # Built with the kept length of the ring: 511 = W - 1.
        """
model: {layers: {sliding: {attention: sliding, window: 512}}}
steps:
- {rows: [{offset: 2048, tokens: 160}], mask: {shape: [160, 671], offset: 511},
   attention: [{family: sliding, k: 671, mask: [160, 671]}]}
""",
        # Verify on a buffered ring: 9 columns, 10 keys, no stale offset.
        """
model: {layers: {sliding: {attention: sliding, cache: buffered, window: 8, slack: 32}}}
steps:
- {phase: verify, rows: [{offset: 8, tokens: 2}], attention: [{family: sliding, live: 8, k: 10, mask: [2, 9],
   fate: discarded, fallback: windowed}]}
""",
        # The layer built its own mask and ignored the caller's.
        """
steps:
- {rows: [{offset: 2048, tokens: 160}], mask: {shape: [160, 160], offset: 0},
   attention: [{family: full, k: 2208, mask: [160, 2208]}]}
""",
    )

    def on_call(self, call: Call, run: Run) -> Iterator[Finding]:
        if call.fate == "used" and call.m == call.k:
            return
        built = call.handed.offset if call.handed is not None else None
        own = {call.cursor, call.live, call.kept, *(call.offsets or ())} - {None}
        if built is not None and own and call.handed_in_use:
            if built not in own:
                physical = built == call.attention.buffer
                said = f"the mask was built for offset {built}{', the physical buffer' if physical else ''}"
                yield self._found(call, built, said)
        elif self._derived(call):
            yield self._found(
                call, 0, f"the mask is as long as the chunk ({call.m}), as if built for offset 0"
            )

    def _derived(self, call: Call) -> bool:
        if short_severity(call) is None or not call.live or call.builder == "capped" or benign_verify(call):
            return False
        padded = [row.padded for row in call.entry.rows or []]
        return call.m == call.q or call.m in padded

    def _found(self, call: Call, built: int, said: str) -> Finding:
        stands = call.cursor if call.cursor is not None else call.offsets
        return self.found(
            f"{said}, but the cache stood at {stands}",
            severity="info" if call.fate == "rebuilt" else short_severity(call) or long_severity(call),
            call=call,
            mask_offset=built,
            cache_offset=stands,
        )


class MaskFromOffsetNotLive(Rule):
    """The mask was sized from the monotonic offset, the keys from what is left after a front trim.

    A key cap drops the oldest keys and leaves the offset alone. The mask must have `live + q` columns; with
    `offset + q` it is longer than the keys by exactly the number dropped.

    What to do: size masks from the live length (offset - live_start), positions from the offset.

    Seen in: lablup/mlxcel#419, #420, #422, #430 (2048 columns against 1536 keys under a cap of 1024).
    """

    code = "MD106"
    name = "mask-from-offset-not-live"
    absorbs = ("MD102",)
    hint = "mlxdiag replay {trace} --misfit strict,crop:old,crop:new,rebuild"
    fires = (
        """
scheduler: {max_kv: 1024, chunk: 512}
steps:
- {rows: [{offset: 1536, tokens: 512}], attention: [{family: full, live_start: 512, k: 1536,
   mask: [512, 2048]}]}
""",
        # The cap is declared; that it acted follows from the keys.
        """
scheduler: {max_kv: 1024, chunk: 512}
steps:
- {rows: [{offset: 1536, tokens: 512}], attention: [{family: full, k: 1536, mask: [512, 2048]}]}
""",
    )
    quiet = (
        """
scheduler: {max_kv: 1024, chunk: 512}
steps:
- {rows: [{offset: 1536, tokens: 512}], attention: [{family: full, live_start: 512, k: 1536,
   mask: [512, 1536]}]}
""",
        # Nothing was dropped yet.
        """
scheduler: {max_kv: 1024, chunk: 512}
steps:
- {rows: [{offset: 512, tokens: 512}], attention: [{family: full, k: 1024, mask: [512, 1024]}]}
""",
    )

    def on_call(self, call: Call, run: Run) -> Iterator[Finding]:
        severity = long_severity(call)
        if severity is None or call.cursor is None or call.q is None or call.live_start <= 0:
            return
        if call.live is None or call.m != call.cursor + call.q or call.k != call.live + call.q:
            return
        yield self.found(
            f"the mask follows the offset ({call.cursor} + {call.q}), but the oldest {call.live_start} keys "
            f"were dropped and {call.live} are live",
            severity=severity,
            call=call,
            offset=call.cursor,
            live=call.live,
            live_start=call.live_start,
        )
