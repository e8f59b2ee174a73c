"""Where the rows of a forward are, by what its caches say: columns of the batch, and padding in front."""

from __future__ import annotations

from typing import NamedTuple

from mlxdiag.models.events import StepEvent, event_of_call


class Columns(NamedTuple):
    """Of the first layer that counts tokens."""

    held: int | None
    """Columns in the cache before the forward, padding included; None where no cache says it."""
    left: list[int] | None
    """Padding in front of each row; None where it is not known."""


def columns_of(event: StepEvent) -> Columns:
    """Without reading a tensor."""
    if event.unseen is not None:
        return Columns(None, None)
    for short in event.calls:
        call = event_of_call(short) if type(short) is tuple else short
        if call.kind in (None, "recurrent", "paged"):  # type: ignore[union-attr]
            continue
        cursor, offset = call.cursor, call.offset  # type: ignore[union-attr]
        if cursor is None and offset is None:
            continue
        if isinstance(offset, list):
            return Columns(cursor, [(cursor or 0) - at for at in offset])
        return Columns(cursor, None if offset is None else [0] * event.batch)
    return Columns(None, None) if event.uids else Columns(0, [0] * event.batch)
