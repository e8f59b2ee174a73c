"""Forwards that begin at position 0 again: on fresh caches, or without any. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from mlxdiag.traces.types import Attention, Entry, Row, Scheduler


def cacheless(entry: Entry, rows: Sequence[Row], scheduler: Scheduler) -> bool:
    """Whether the model was called without a cache, so that the forward holds the whole of its sequences.

    The scheduler says so of a program, which may have called the model otherwise, too: a forward whose calls
    name caches, or that goes on behind tokens, had one.
    """
    if not scheduler.cacheless or any((row.offset or 0) > 0 for row in rows):
        return False
    return all(call.cache is None for call in _attending(entry))


def anew(entry: Entry, index: int, row: Row) -> bool:
    """Whether the calls show that nothing was held of row `index` before: the first of its keys are new.

    The scheduler's word alone is no evidence: that it counts from 0 may be its fault.
    """
    calls = _attending(entry)
    return not row.offset and bool(calls) and all(_held_nothing(call, index, row) for call in calls)


def _attending(entry: Entry) -> list[Attention]:
    return [call for call in entry.attention or [] if call.cache != "recurrent"]


def _held_nothing(call: Attention, index: int, row: Row) -> bool:
    offset = call.offset[index : index + 1] if isinstance(call.offset, list) else [call.offset]
    if isinstance(call.k, list):
        # Packed: each row has its own keys.
        return offset == [0] and call.k[index : index + 1] == [row.tokens]
    behind = -(row.left_padding or 0)
    return offset in ([0], [behind]) and call.k is not None and call.k == call.q
