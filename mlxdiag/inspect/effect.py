"""Which mask an attention call really worked with, and whether a fallback gives the same attention."""

from __future__ import annotations

from mlxdiag.inspect.call import Call

ARRAY, CAUSAL, WINDOWED, SLICED, OLDEST, NONE = "array", "causal", "windowed", "sliced", "oldest", "none"

PLAIN_BUILDERS = ("causal", "padded")
"""Builders that know no window."""


def in_effect(call: Call) -> str | None:
    """The mask that attention saw: one of the names above; `None` where that is not known.

    A dropped mask leaves its fallback, a rebuilt one is right by construction (windowed), a rejected one
    nothing at all. An array counts as plain causal where its builder is recorded as one without a window
    and it fits the keys.
    """
    if call.fate == "rejected":
        return None
    if call.fate == "rebuilt":
        return WINDOWED
    if call.fate == "discarded":
        return call.fallback
    if call.mask_kind == "none":
        return call.fallback or NONE
    if call.mask_kind == "causal":
        return CAUSAL
    if call.mask_kind == "array":
        return CAUSAL if call.builder in PLAIN_BUILDERS and call.m == key_axis(call) else ARRAY
    return None


def fallback_is_right(call: Call) -> bool:
    """Whether the recorded fallback attends exactly what a mask rebuilt from the live keys would.

    Multi-token keys are chronological in every cache kind, so a causal band aligned to the last key is right
    on full layers, and a windowed one on sliding layers; pinned sinks shift the columns of a band.
    """
    q, k, window = call.q, call.k, call.window
    if q is None or k is None or call.fallback is None:
        return False
    if call.fallback == OLDEST:
        # The first q keys are the call's own only where nothing was held before it.
        own = call.cursor == 0 or k <= q
        return own and (call.kind == "full" or (window is not None and q <= window))
    if call.kind == "full":
        return call.fallback != NONE or q == 1
    if window is None:
        return False
    if call.kind == "chunked":
        return call.fallback == CAUSAL and call.cursor is not None and call.cursor + q <= window
    if call.kind != "sliding":
        return False
    if call.fallback == WINDOWED:
        return q == 1 or call.keep == 0
    if call.fallback == CAUSAL:
        return k <= window
    if call.fallback == SLICED:
        return q == 1 or k <= window
    return q == 1 and k <= window


def benign_verify(call: Call) -> bool:
    """A speculative verify on a buffered ring: the keys are not compacted yet, the mask is capped at `W-1+q`.

    Harmless under a windowed causal fallback, because the keys are chronological (mask 9, keys 10, W 8).
    """
    q, k, window = call.q, call.k, call.bound
    if q is None or k is None or window is None:
        return False
    return (
        call.cache == "buffered"
        and call.m == window - 1 + q
        and k - q >= window
        and call.fallback == WINDOWED
        and call.fate in (None, "discarded")
    )


def key_axis(call: Call) -> int | None:
    """The key count that the mask's last axis has to meet; packed rows may be summed or padded to the
    longest."""
    if call.k is not None or not call.ks:
        return call.k if not call.ks or call.m is None or call.m != sum(call.ks) else call.m
    longest, packed = max(call.ks), sum(call.ks)
    if call.m in (longest, packed):
        return call.m
    return longest if call.m is not None and call.m < longest else packed
