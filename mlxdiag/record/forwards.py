"""The parts of a forward's line that follow from what the probe saw."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from mlxdiag.models.attention_entries import to_attention
from mlxdiag.models.events import StepEvent
from mlxdiag.record.visible import Visible
from mlxdiag.record.watched import Watched
from mlxdiag.traces.types import Attention, Fault, Row


def calls_of(event: StepEvent, watched: Watched) -> list[Attention] | None:
    """Attention calls with layers left out where they are all of their family."""
    if event.unseen is not None:
        return [Attention()]
    visible = watched.visible
    if visible is None:
        grouped = watched.grouping.of(event.calls)
        if grouped is not None:
            return grouped or None
    geometry = watched.geometry
    observed = (lambda call: visible.of(call, geometry)) if visible is not None else None
    calls = to_attention(event.attention, geometry, observed)
    families = watched.families
    for index, call in enumerate(calls):
        family = families.get(call.family or "")
        if family is not None and call.layers == family.layers:
            calls[index] = msgspec.structs.replace(call, layers=None)
    return calls or None


def phase_of(event: StepEvent, rows: Sequence[Row]) -> str:
    """Where no hook says it."""
    if event.q == 1:
        return "decode"
    return "chunk" if any((row.offset or 0) > 0 for row in rows) else "prefill"


def fault_of(event: StepEvent) -> Fault | None:
    """The exception that building the graph raised."""
    if event.error is None:
        return None
    where = f"layer {event.error_layer} attention" if event.error_layer is not None else None
    return Fault(text=f"{event.error_type}: {event.error}", where=where)


def unread(visible: Visible | None) -> str | None:
    """Why a line at the visibility level says nothing of it."""
    if visible is None or visible.known:
        return None
    return "visibility not observed: the keys of a batch, or keys that were there before, cannot be told"
