"""What a replay would hold at its peak, in bytes, before anything is built."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

from mlxdiag.errors import UnjudgedError
from mlxdiag.replay import prompts

if TYPE_CHECKING:
    from mlxdiag.replay.experiment import Prepared

TINY_HEADS = 4
TINY_LAYERS = 12
TINY_HEAD_DIM = 32
FLOAT = 4


class Need(NamedTuple):
    """Rough, and from above: `words` says what it is made of."""

    tiny: int
    words: str


def estimate(prepared: Prepared) -> Need:
    """Peak of a replay on a tiny float32 instance with visibility and parity.

    The single pass holds logits `[n, V]` and scores `[heads, n, n]`; a forward of q queries over k keys holds
    its mask `[q, k]` once per layer as booleans, and the caches `[layers, 2, k, head]`.
    """
    plan = prepared.plan
    longest = max(plan.lengths.values(), default=0)
    vocab = max(4096, prompts.needed(plan) + 256)
    logits = longest * vocab * FLOAT
    width = max((op.width for op in plan.forwards), default=0)
    masks = TINY_LAYERS * width * longest
    given = (caller.shape for op in plan.forwards for caller in op.callers)
    handed = max((q * m * (FLOAT + 1) for q, m in given), default=0)
    caches = TINY_LAYERS * 2 * longest * TINY_HEADS * TINY_HEAD_DIM * FLOAT * max(len(plan.lengths), 1)
    words = (
        f"logits of the single pass {human(logits)}, its scores {human(scores(longest))}, "
        f"masks read {human(masks)}, caches {human(caches)}"
    )
    if handed > masks:
        words += f", the caller's mask {human(handed)}"
    return Need(2 * logits + scores(longest) + masks + handed + caches, words)


def require(prepared: Prepared) -> None:
    """Raises UnjudgedError where the replay needs more than the machine has, before anything is built."""
    need, there = estimate(prepared), machine()
    if there is not None and need.tiny > there:
        raise UnjudgedError(
            f"{prepared.plan.source}: a replay needs about {human(need.tiny)} ({need.words}) "
            f"and this machine has {human(there)}; cut the trace down to fewer tokens"
        )


def machine() -> int | None:
    """Bytes of memory here; None where the system does not say."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return None


def scores(tokens: int) -> int:
    """Bytes of one layer's attention scores when so many tokens are run in a single pass."""
    return TINY_HEADS * tokens * tokens * FLOAT


def human(size: int) -> str:
    """`1.5 MB`."""
    amount, unit = float(size), "B"
    for bigger in ("kB", "MB", "GB", "TB", "PB", "EB"):
        if amount < 1000:
            break
        amount, unit = amount / 1000, bigger
    return f"{amount:.3g} {unit}"
