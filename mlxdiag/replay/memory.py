"""What a replay would hold at its peak, in bytes, before anything is built."""

from __future__ import annotations

from typing import NamedTuple

from mlxdiag.replay import prompts
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
    scores = TINY_HEADS * longest * longest * FLOAT
    width = max((op.width for op in plan.forwards), default=0)
    masks = TINY_LAYERS * width * longest
    caches = TINY_LAYERS * 2 * longest * TINY_HEADS * TINY_HEAD_DIM * FLOAT * max(len(plan.lengths), 1)
    words = (
        f"logits of the single pass {human(logits)}, its scores {human(scores)}, "
        f"masks read {human(masks)}, caches {human(caches)}"
    )
    return Need(2 * logits + scores + masks + caches, words)


def human(size: int) -> str:
    """`1.5 MB`."""
    amount, unit = float(size), "B"
    for bigger in ("kB", "MB", "GB", "TB"):
        if amount < 1000:
            break
        amount, unit = amount / 1000, bigger
    return f"{amount:.3g} {unit}"
