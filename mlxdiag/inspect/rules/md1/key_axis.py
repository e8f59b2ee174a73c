"""MD101 and MD102: the mask's key axis against the keys that the cache returned."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from mlxdiag.inspect.call import Call
from mlxdiag.inspect.effect import benign_verify, fallback_is_right, key_axis
from mlxdiag.inspect.findings import Finding
from mlxdiag.inspect.rule import Rule
from mlxdiag.inspect.run import Run

COMPARE = "mlxdiag replay {trace} --misfit strict,rebuild"


def short_severity(call: Call) -> str | None:
    """How bad `m < k` is at this call; `None` where the mask is not shorter than the keys.

    error when the library must throw, when what happens instead is unknown, and when the fallback loses the
    window; warning when only a fallback that equals the rebuilt mask makes it right; info for a mask that was
    rebuilt, and for a speculative verify on a buffered ring.
    """
    k = key_axis(call)
    if call.m is None or k is None or call.m >= k:
        return None
    if call.fate == "rebuilt" or benign_verify(call):
        return "info"
    if call.fate in (None, "discarded") and fallback_is_right(call):
        return "warning"
    return "error"


def long_severity(call: Call) -> str | None:
    """How bad `m > k` is at this call; `None` where the mask is not longer than the keys."""
    k = key_axis(call)
    if call.m is None or k is None or call.m <= k:
        return None
    if call.fate == "rebuilt":
        return "info"
    if call.crop == "old" and call.fate in (None, "cropped"):
        return "info" if _same_band(call, k) else "warning"
    if call.fate == "discarded" and fallback_is_right(call):
        return "warning"
    return "error"


def _same_band(call: Call, k: int) -> bool:
    """The newest columns of a causal band are the causal band of the newest keys; of a windowed one
    likewise."""
    if call.kind == "full":
        return True
    if call.window is None or call.keep:
        return False
    return call.builder in ("window", "batch") or k <= call.window


class MaskShorterThanKeys(Rule):
    """The mask has fewer columns than the cache returned keys.

    A strict attention kernel throws (`[broadcast_shapes] Shapes (160,160) and (1,8,160,671)`). A consumer
    that drops the mask instead is right only if its fallback is the mask that should have been built:
    windowed causal on a sliding layer's chronological keys, plain causal on a full layer. Plain causal on a
    sliding layer, keys sliced to the window, or no mask at all change what the model attends, without a
    word.

    info: a speculative verify on a buffered ring (mask 9, keys 10, window 8) is legal under that fallback.

    What to do: build the mask from the cache's own live length, not from the scheduler's count; then replay
    with `--misfit strict,rebuild` to see what the mismatch changes.

    Seen in: lablup/mlxcel#885, #891, #401, #412; ml-explore/mlx-swift-lm#27; Blaizzy/mlx-vlm#251;
    huggingface/transformers#48482; pytorch/executorch#22865; unslothai/unsloth#5309.
    """

    code = "MD101"
    name = "mask-shorter-than-keys"
    absorbs = ("MD901", "MD301", "MD302", "MD303", "MD305")
    hint = COMPARE
    fires = (
        # A caller mask built at offset 0 on a continuation; nothing says what the consumer does with it.
        """
model: {layers: {sliding: {attention: sliding, window: 512}}}
steps:
- {rows: [{offset: 2048, tokens: 153, padded: 160}], attention: [{family: sliding, k: 671, mask: [160, 160]}]}
""",
        # The prompt's mask kept at decode: 300 columns, 301 keys.
        """
steps:
- {phase: decode, rows: [{offset: 300, tokens: 1}], attention: [{family: full, k: 301, mask: [1, 300]}]}
""",
        # The right lengths for a fallback, but plain causal has no window on 671 keys.
        """
model: {layers: {sliding: {attention: sliding, window: 512}}}
steps:
- {rows: [{offset: 2048, tokens: 160}], attention: [{family: sliding, k: 671, mask: [160, 160],
   fate: discarded, fallback: causal}]}
""",
        # Legal, and still worth knowing: verify on a buffered ring.
        """
model: {layers: {sliding: {attention: sliding, cache: buffered, window: 8, slack: 32}}}
steps:
- {phase: verify, rows: [{offset: 8, tokens: 2}], attention: [{family: sliding, live: 8, k: 10, mask: [2, 9],
   fate: discarded, fallback: windowed}]}
""",
    )
    quiet = (
        # Tile padding: 153 real tokens padded to 160, and the mask fits both families.
        """
model: {layers: {sliding: {attention: sliding, window: 512}, full: {attention: full}}}
steps:
- {rows: [{offset: 2048, tokens: 153, padded: 160}], attention: [{family: sliding, k: 671, mask: [160, 671]},
   {family: full, k: 2208, mask: [160, 2208]}]}
""",
        # A fresh chunk longer than the window returns all its keys.
        """
model: {layers: {sliding: {attention: sliding, window: 128}}}
steps:
- {rows: [{offset: 0, tokens: 298}], attention: [{family: sliding, k: 298, mask: [298, 298]}]}
""",
        # A score bias of an MLA family: only its last axis is a mask's.
        """
steps:
- {rows: [{offset: 64, tokens: 4}], attention: [{family: full, k: 68, mask: [1, 16, 4, 68]}]}
""",
        # A single query on a ring past the window needs no mask.
        """
model: {layers: {sliding: {attention: sliding, window: 512}}}
steps:
- {phase: decode, rows: [{offset: 2201, tokens: 1}], attention: [{family: sliding, k: 512, mask: null}]}
""",
        # Paged rows packed into one call: the mask's key axis is their sum.
        """
steps:
- {rows: [{seq: a, offset: 10, tokens: 2}, {seq: b, offset: 4, tokens: 2}],
   attention: [{family: full, cache: paged, offset: [10, 4], k: [12, 6], mask: [1, 1, 4, 18]}]}
""",
        # A static buffer: keys and mask are the whole buffer, zeros ahead.
        """
steps:
- {rows: [{offset: 8, tokens: 4}], attention: [{family: full, cache: static, buffer: 64, k: 64,
   mask: [4, 64]}]}
""",
    )

    def on_call(self, call: Call, run: Run) -> Iterator[Finding]:
        severity = short_severity(call)
        if severity is None:
            return
        k = key_axis(call)
        assert call.m is not None
        assert k is not None
        yield self.found(
            f"the mask has {call.m} columns but the cache returned {k} keys ({k - call.m} more)"
            f"{_where(call)}; {_consequence(call, severity)}",
            severity=severity,
            call=call,
            **_evidence(call, k),
        )


class MaskLongerThanKeys(Rule):
    """The mask has more columns than the cache returned keys.

    The mask was sized from a count that runs ahead of the keys: the monotonic offset after a front trim (see
    MD106), the physical buffer, or another layer family's cache. A strict kernel throws. A consumer may crop:
    cutting the *oldest* columns keeps the band aligned to the newest key and is usually right; cutting the
    newest ones shifts every row.

    What to do: size the mask from the keys the cache will return, for each layer family on its own.

    Seen in: lablup/mlxcel#419, #430, #405, #1776; ml-explore/mlx-swift-examples#371; ml-explore/mlx-lm#463;
    huggingface/transformers#48482.
    """

    code = "MD102"
    name = "mask-longer-than-keys"
    absorbs = ("MD901", "MD302", "MD303", "MD305")
    hint = "mlxdiag replay {trace} --misfit strict,crop:old,crop:new,rebuild"
    fires = (
        # The mask follows the offset, the keys were front-trimmed to 1024.
        """
steps:
- {rows: [{offset: 1536, tokens: 512}], attention: [{family: full, live: 1024, k: 1536, mask: [512, 2048]}]}
""",
        # The mask follows the physical buffer: 556 slots, 301 tokens.
        """
model: {layers: {sliding: {attention: sliding, window: 1024}}}
steps:
- {rows: [{offset: 301, tokens: 7}], attention: [{family: sliding, buffer: 556, k: 308, mask: [7, 563]}]}
""",
        # Cropped from the new end: aligned to the wrong key.
        """
steps:
- {rows: [{offset: 1536, tokens: 512}], attention: [{family: full, live: 1024, k: 1536, mask: [512, 2048],
   fate: cropped, crop: new}]}
""",
    )
    quiet = (
        # The mask follows the live keys.
        """
steps:
- {rows: [{offset: 1536, tokens: 512}], attention: [{family: full, live: 1024, k: 1536, mask: [512, 1536]}]}
""",
        # 256-slot allocation: a buffer wider than the keys is not a length.
        """
model: {layers: {sliding: {attention: sliding, window: 1024}}}
steps:
- {rows: [{offset: 301, tokens: 7}], attention: [{family: sliding, buffer: 556, k: 308, mask: [7, 308]}]}
""",
    )

    def on_call(self, call: Call, run: Run) -> Iterator[Finding]:
        severity = long_severity(call)
        if severity is None:
            return
        k = key_axis(call)
        assert call.m is not None
        assert k is not None
        yield self.found(
            f"the mask has {call.m} columns but the cache returned only {k} keys ({call.m - k} fewer)"
            f"{_where(call)}; {_long_consequence(call, severity)}",
            severity=severity,
            call=call,
            cause=_physical(call),
            **_evidence(call, k),
        )


def _evidence(call: Call, k: int) -> dict[str, Any]:
    return {
        "mask_keys": call.m,
        "returned_keys": k,
        "q": call.q,
        "offset": call.cursor,
        "window": call.window,
        "cache": call.cache,
        "fate": call.fate,
        "fallback": call.fallback,
        "crop": call.crop,
    }


def _where(call: Call) -> str:
    return "" if call.cursor is None else f" at offset {call.cursor}"


def _consequence(call: Call, severity: str) -> str:
    if call.fate == "rebuilt":
        return "it was rebuilt from the live keys"
    if severity == "info":
        return "legal on a buffered ring, whose keys are chronological under the windowed fallback"
    if severity == "warning":
        return (
            f"the {call.fallback} fallback equals the mask that should have been built, so attention is right"
        )
    if call.fallback is not None:
        return f"the fallback ({call.fallback}) attends other keys than the rebuilt mask would"
    if call.fate == "discarded":
        return "it was dropped, and what attention fell back to was not observed"
    return "a strict kernel must throw here"


def _long_consequence(call: Call, severity: str) -> str:
    if call.fate == "rebuilt":
        return "it was rebuilt from the live keys"
    if call.crop == "old":
        if severity == "info":
            return "cropped at the old end, which leaves the same band"
        return "cropped at the old end, which keeps the alignment but not for certain the window"
    if call.crop == "new":
        return "cropped at the new end, which shifts every row against its keys"
    if severity == "warning":
        return (
            f"the {call.fallback} fallback equals the mask that should have been built, so attention is right"
        )
    return "a strict kernel must throw here"


def _physical(call: Call) -> list[str]:
    buffer = call.attention.buffer
    if buffer is None or buffer == call.cursor or call.q is None or call.m != buffer + call.q:
        return []
    return [
        f"the mask was sized from the physical buffer ({buffer} slots), not from the {call.cursor} tokens it "
        "holds"
    ]
