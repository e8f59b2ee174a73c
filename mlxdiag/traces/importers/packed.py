"""Steps of engines that pack rows of any length behind one another, without padding between them."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import structs

from mlxdiag.traces.importers.draft import Draft
from mlxdiag.traces.types import Row

MOST_ROWS = 4096


def write(draft: Draft, rows: Sequence[Row]) -> bool:
    """Write one packed step; False where no row was fed.

    A batch of a trace is as wide as its widest row, and what is missing is padding, which a packed step does
    not have. So rows of several tokens stand alone, which attention cannot tell from being packed, and
    those of one token together. Rows that were not fed are left out.
    """
    several = [row for row in rows if (row.tokens or 0) > 1]
    single = [row for row in rows if row.tokens == 1]
    groups = [[row] for row in several] + ([single] if single else [])
    for group in groups:
        phases = {row.phase for row in group}
        step = draft.step(phases.pop() if len(phases) == 1 else "decode")
        step.rows = [structs.replace(row, phase=None) for row in group] if not phases else group
        if len(groups) > 1:
            step.note(f"of one packed step of {len(several) + len(single)} rows")
    return bool(groups)


def phase_of(tokens: int, offset: int | None, total: int | None) -> str:
    """A first piece starts at 0; a single token after the prompt is a decode."""
    if offset == 0:
        return "prefill"
    inside = offset is not None and total is not None and offset < total
    return "chunk" if tokens > 1 or inside else "decode"
