"""What an event says of a layer, whichever library it was told of."""

from __future__ import annotations

from mlxdiag.models.events import AttentionEvent, StepEvent


def layer(step: StepEvent, index: int) -> AttentionEvent:
    return next(event for event in step.attention if event.layer == index)


def visible(event: AttentionEvent, row: int, query: int) -> list[tuple[int, int]]:
    """(sequence, position) of every key that a query sees, in order."""
    assert event.seen is not None
    mask = event.seen.mask[min(row, len(event.seen.mask) - 1), query]
    pairs = zip(event.seen.key_seq[row][mask].tolist(), event.seen.key_pos[row][mask].tolist(), strict=True)
    return sorted(pairs)
