"""What a consumer does with a mask whose key axis does not fit the keys. Pure: decisions and boolean arrays.

`strict` lets the library throw; `raise` is a guard that refuses masks that are too short; `discard:*` drops a
short mask and falls back (a long one loses its oldest columns, as mlxcel's `trim_mask_to_keys` does);
`crop:*` cuts the longer of mask and keys at its old or its new end; `rebuild` makes the mask anew from the
live keys.
"""

from __future__ import annotations

import msgspec

from mlxdiag.errors import UsageError
from mlxdiag.replay import masks
from mlxdiag.replay.masks import Bool

POLICIES = (
    "strict",
    "raise",
    "discard:windowed",
    "discard:causal",
    "discard:sliced",
    "discard:none",
    "crop:old",
    "crop:new",
    "rebuild",
)


FALLBACKS = ("discard:causal", "discard:windowed", "discard:none")
"""What a consumer may have fallen back to when a trace says only that the mask was dropped."""


class GuardRaised(Exception):
    """The consumer refused a mask that is shorter than the keys."""


class Decision(msgspec.Struct, frozen=True):
    fate: str
    """used, cropped, discarded or rebuilt, as the trace writes it."""
    fallback: str | None = None
    crop: str | None = None
    mask: Bool | None = None
    """The mask to apply in place of the given one, `[q, k after the cuts]`."""
    unmasked: bool = False
    mask_columns: tuple[int, int] | None = None
    """Columns of the given mask to keep, start and stop."""
    keys: tuple[int, int] | None = None
    """Keys to keep, start and stop."""


def parse(text: str) -> tuple[str, ...]:
    """Split a `--misfit` value at its commas.

    Raises:
        UsageError: an unknown policy.
    """
    names = tuple(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
    for name in names:
        if name not in POLICIES:
            raise UsageError(f"--misfit: {name!r} is unknown; known: {', '.join(POLICIES)}")
    if not names:
        raise UsageError(f"--misfit: no policy given; known: {', '.join(POLICIES)}")
    return names


def decide(policy: str, *, q: int, k: int, m: int, window: int | None) -> Decision:
    """What `policy` makes of a `[q, m]` mask on `k` returned keys of a layer with `window` (None: full).

    Raises:
        GuardRaised: under `raise`, a short mask.
    """
    if m == k or policy == "strict":
        return Decision("used")
    if policy == "rebuild":
        return Decision("rebuilt", mask=_live(q, k, window))
    if policy == "crop:old":
        return _cut(m, k, newest=True)
    if policy == "crop:new":
        return _cut(m, k, newest=False)
    if m > k:
        return _cut(m, k, newest=True)
    if policy == "raise":
        raise GuardRaised(
            f"mask key axis ({m}) is shorter than the returned key length ({k}) for {q} queries"
        )
    return _fall_back(policy.partition(":")[2], q, k, window)


def _live(q: int, k: int, window: int | None) -> Bool:
    return masks.causal(q, k - q) if window is None else masks.window(q, k - q, window)


def _cut(m: int, k: int, *, newest: bool) -> Decision:
    crop = "old" if newest else "new"
    if m > k:
        return Decision("cropped", crop=crop, mask_columns=(m - k, m) if newest else (0, k))
    return Decision("used", fallback="sliced", crop=crop, keys=(k - m, k) if newest else (0, m))


def _fall_back(fallback: str, q: int, k: int, window: int | None) -> Decision:
    if fallback == "none":
        return Decision("discarded", "none", unmasked=True)
    if fallback == "causal" or window is None or k <= window:
        name = "causal" if fallback == "causal" or window is None else fallback
        return Decision("discarded", name, mask=masks.causal(q, k - q))
    if fallback == "windowed":
        return Decision("discarded", "windowed", mask=masks.window(q, k - q, window))
    return Decision("discarded", "sliced", mask=masks.capped(q, k - q, window), keys=(k - window, k))
