"""What both ranks run, and how far their logits are from those of a single process."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mlxdiag.audit.distributed.told import Difference
from mlxdiag.models.adapter import Instance
from mlxdiag.replay import parity
from mlxdiag.replay.prompts import special_ids

Ids = NDArray[np.int32]

LENGTH = 19
"""Tokens: two windows of 8 and three."""
SCHEDULES: dict[str, tuple[int, tuple[int, ...]]] = {
    "fresh over the window": (1, (LENGTH,)),
    "chunked prefill": (1, (5, 5, 5, 4)),
    "decode across the window": (1, (6, *[1] * (LENGTH - 6))),
    "two rows of one length": (2, (5, 5, 5, 1, 1, 1, 1)),
}
"""Rows, and the pieces that each is fed in."""


def tokens(instance: Instance, seed: int) -> Ids:
    """Different ids [2, LENGTH], none of them special."""
    special = special_ids(instance.geometry.tokens, instance.vocab)
    usable = np.setdiff1d(np.arange(instance.vocab, dtype=np.int32), sorted(special))
    drawn = np.random.default_rng(seed).permutation(usable)[: 2 * LENGTH]
    return drawn.astype(np.int32).reshape(2, LENGTH)


def run(instance: Instance, ids: NDArray[Any], rows: int, pieces: tuple[int, ...]) -> parity.Floats:
    """Logits [rows * LENGTH, V] of the first rows of `ids`, fed in these pieces on fresh caches."""
    caches, logits, start = instance.new_cache(), [], 0
    for length in pieces:
        piece = instance.forward(ids[:rows, start : start + length], caches)
        logits.append(instance.backend.read(piece))
        start += length
    joined: parity.Floats = np.concatenate(logits, axis=1)
    return joined.reshape(-1, joined.shape[-1])


def compare(name: str, seen: parity.Floats, reference: parity.Floats, tolerance: float) -> Difference:
    """Logits `[n, V]` of a schedule against those of the same schedule in one process."""
    found = parity.compare(seen, reference, list(range(len(seen))), tolerance)
    # JSON has no infinity.
    largest = min(found.max_abs, 1e38)
    return Difference(name, found.count, largest, tolerance, list(found.wrong), found.margin)
