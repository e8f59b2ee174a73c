"""What an entry without a `phase` must be, from the fields it has."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mlxdiag.traces.types import Entry


def event_kind(entry: Entry) -> str | None:
    """Of an entry without a phase in which no token was fed; None where it may be a forward."""
    rows, calls = entry.rows or (), entry.attention or ()
    named = {row.phase for row in rows}
    if len(named) == 1 and None not in named:
        return named.pop()
    if any(row.tokens or row.padded for row in rows) or any(call.q is not None for call in calls):
        return None
    if any(_any_given(row.matched, row.entry, row.trimmed, row.restored) for row in rows):
        return "adopt"
    if any(_any_given(row.declared, row.size) for row in rows):
        return "merge"
    if any(_any_given(item.asked, item.done) for item in (*rows, *calls)):
        return "trim"
    if rows or calls or entry.mask or entry.output:
        return None
    if entry.error or entry.exit is not None:
        return "end"
    told = (entry.name, entry.architecture, entry.config, entry.layers, entry.tokens)
    return "model" if _any_given(*told) else "note"


def forward_kind(entry: Entry) -> str:
    """Of an entry without a phase in which tokens were fed."""
    rows, calls = entry.rows or (), entry.attention or ()
    fed = [max(row.tokens or 0, row.padded or 0) for row in rows if _any_given(row.tokens, row.padded)]
    fed = fed or [call.q for call in calls if call.q is not None]
    if any(row.drafted is not None for row in rows) and max(fed, default=0) > 1:
        return "verify"
    if max(fed, default=2 if calls or entry.mask else 1) <= 1:
        return "decode"
    before = any(_any_positive(item.offset) for item in (*rows, *calls))
    return "chunk" if before else "prefill"


def _any_given(*values: object) -> bool:
    return any(value is not None for value in values)


def _any_positive(offset: int | list[int] | None) -> bool:
    return any(one > 0 for one in offset) if isinstance(offset, list) else (offset or 0) > 0
