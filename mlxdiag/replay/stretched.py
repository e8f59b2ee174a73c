"""Which rows of a plan RoPE rotates otherwise than a single pass would. Pure.

Rope types that depend on the length (dynamic, longrope) rotate by other frequencies once a forward reaches
beyond their original length. Keys that are cached keep those of the forward that made them, so a longer
single pass is no reference: it rotates all of them anew.
"""

from __future__ import annotations

from collections.abc import Iterator

from mlxdiag.replay.ops import Adopt, Forward, Plan
from mlxdiag.replay.tape import Tape


def rows(plan: Plan, limit: int | None) -> set[tuple[int, str]]:
    """(place in the plan, sequence) of every row of a forward that no single pass can judge.

    `limit`: tokens up to which all are rotated alike, None where they always are. Padding is counted as
    tokens: whether its positions are given to RoPE hangs on the library.
    """
    return set() if limit is None else set(_rows(plan, limit))


def _rows(plan: Plan, limit: int) -> Iterator[tuple[int, str]]:
    from mlxdiag.replay.oracle import begin_again, replay_tape

    tapes: dict[str, Tape] = {}
    stretched: set[str] = set()
    for place, op in enumerate(plan.ops):
        if isinstance(op, Forward):
            begin_again(op, tapes)
            for seq in op.again:
                stretched.discard(seq)
        replay_tape(op, tapes)
        if isinstance(op, Adopt):
            # Stored keys were made when they were fed, in whatever company.
            owner = plan.shared.get(op.seq, (op.seq, 0))[0]
            stretched.discard(op.seq)
            if op.entry > limit or owner in stretched or (plan.scheduler.store and stretched):
                stretched.add(op.seq)
        elif isinstance(op, Forward):
            fed = [feed.seq for feed in op.feeds]
            # The frequencies of a forward are those of its longest row.
            if max(tapes[seq].offset for seq in fed) > limit:
                stretched.update(fed)
            yield from ((place, seq) for seq in fed if seq in stretched)
