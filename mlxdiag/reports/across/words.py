"""What every renderer of a comparison says in the same words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from mlxdiag.audit.across.cell import SAVED, Across, Cell, Difference, Row
from mlxdiag.audit.engine.death import UNFINISHED
from mlxdiag.audit.engine.table import COLUMNS
from mlxdiag.reports.view import count

TITLES = {scenario.name: scenario.title for scenario in (*COLUMNS, SAVED)}
SIGNS = {"agree": ".", "differ": "D", "own": "o", "refused": "r", "crash": "X", "skipped": "-"}
LEGEND = (
    (".", "agree"),
    ("D", "differ (MD403)"),
    ("o", "a fault of one library's own: it leaves its own single pass, in which both agree"),
    ("r", "one refuses"),
    ("X", "one crashes"),
    ("-", "nothing to compare"),
)
RESULTS = ("agree", "differ", "own", "refused", "crash", "skipped")
FAMILIES = ("agree", "differ", "refused", "crash", "lacks", "apart", "unjudged")
MEANINGS = {
    "agree": "agree",
    "differ": "differ",
    "own": "a fault of one's own",
    "refused": "refused by one",
    "crash": "crash in one",
    "skipped": "skipped",
    "lacks": "in one library only",
    "apart": "not the same model, or only a wrapper of one",
    "unjudged": "not judged, by a fault of mlxdiag",
}


def subject(across: Across) -> str:
    """`mlx-lm 0.32.2 and transformers 5.24.0 on cpu`."""
    names = (
        f"{name} {across.libraries[name]}" for name in ("mlx-lm", "transformers") if name in across.libraries
    )
    return f"{' and '.join(names)} on the same weights, on {across.device}"


def verdict(across: Across) -> str:
    """The first line."""
    if nothing_compared(across):
        return "nothing was compared"
    compared = sum(row.result in ("agree", "differ") for row in across.rows)
    families = {name for one in across.differences for name in one.families}
    if not across.differences:
        return f"no difference in {count(compared, 'family', 'families')}"
    return (
        f"{count(len(across.differences), 'difference')} in {len(families)} of "
        f"{count(compared, 'family', 'families')} that could be compared"
    )


def nothing_compared(across: Across) -> bool:
    """No position of any cell was held against the other library's."""
    return not any(cell.compared for cell in across.cells)


def unjudged(across: Across) -> bool:
    """Something is left without a verdict, by a fault of this program."""
    return any(row.result == "unjudged" for row in across.rows) or any(
        cell.result == "skipped" and cell.reason.startswith(UNFINISHED) for cell in across.cells
    )


def families_line(across: Across) -> str:
    """Every family once: the counts sum up to the whole."""
    counts = across.families()
    parts = (f"{counts[name]} {MEANINGS[name]}" for name in FAMILIES if counts.get(name))
    return f"{count(len(across.rows), 'family', 'families')}: {', '.join(parts)}"


def cells_line(across: Across) -> str:
    """Every cell once."""
    if not across.cells:
        return "no cells"
    counts = across.tally()
    parts = (f"{counts[name]} {MEANINGS[name]}" for name in RESULTS if counts.get(name))
    return f"{count(len(across.cells), 'cell')}: {', '.join(parts)}"


def noise_line(across: Across) -> str:
    """How far apart right answers lie, and what may."""
    agreed = [cell for cell in across.cells if cell.result == "agree" and cell.largest is not None]
    if not agreed or not any(row.noise for row in across.rows):
        return ""
    largest = max(agreed, key=lambda cell: cell.largest or 0.0)
    floors = [value for row in across.rows for value in row.noise.values()]
    tolerances = [cell.tolerance or 0.0 for cell in agreed]
    positions = sum(cell.compared for cell in agreed)
    return (
        f"where they agree, {positions} positions lie within {largest.largest:.1e} of the logits' spread "
        f"({largest.family}); noise floors {min(floors):.1e} to {max(floors):.1e}, tolerances "
        f"{min(tolerances):.1e} to {max(tolerances):.1e}"
    )


def columns(across: Across) -> list[str]:
    """Scenarios that have a cell, in the order of the table."""
    held = {cell.scenario for cell in across.cells}
    return [name for name in across.scenarios if name in held]


def signs(across: Across) -> Iterator[tuple[Row, list[str]]]:
    """The rows with cells, and a sign for each column."""
    cells = {(cell.family, cell.scenario): cell for cell in across.cells}
    names = columns(across)
    families = {cell.family for cell in across.cells}
    for row in across.rows:
        if row.family in families:
            found = (cells.get((row.family, name)) for name in names)
            yield row, [SIGNS[cell.result] if cell is not None else " " for cell in found]


def details(difference: Difference, cells: Sequence[Cell]) -> Iterator[tuple[str, str]]:
    """Label and value of everything that is known of a difference. `cells`: its own."""
    departs = difference.library or "not told"
    yield "departs", departs + (f", {difference.where}" if difference.where else "")
    yield "families", ", ".join(difference.families)
    scenarios = {scenario for _, scenario in difference.cells}
    yield "cells", f"{len(difference.cells)} ({count(len(scenarios), 'scenario')})"
    yield "cause" if difference.known else "seen", difference.cause
    first = next((cell for cell in cells if cell.causes[0] == difference.id), cells[0])
    yield "first", f"{first.family}, {first.scenario}: {first.reason}"
    told = first.evidence
    if difference.kind == "visibility" and told.get("meant"):
        query, due, last = told["query"], told.get("due", len(told["meant"])), told["meant"][-1]
        seen = ", ".join(f"{name} {keys}" for name, keys in told["keys"].items())
        yield (
            "visible",
            f"layer {query['layer']}, position {query['position']}: the config means "
            f"{due} keys, {last + 1 - due} to {last}; keys seen: {seen}",
        )


def ones_own(across: Across) -> Iterator[tuple[str, list[str]]]:
    """For each library, the scenarios that it does not get right by itself, with how many families."""
    held: dict[str, dict[str, int]] = {}
    for cell in across.cells:
        if cell.result == "own":
            counts = held.setdefault(cell.library, {})
            counts[cell.scenario] = counts.get(cell.scenario, 0) + 1
    for library, counts in sorted(held.items()):
        yield library, [f"{name} ({number})" for name, number in counts.items()]


def reasons(across: Across) -> Iterator[tuple[str, str, list[str]]]:
    """What could not be compared: result, reason, and where (families, or families under a scenario)."""
    held: dict[tuple[str, str], list[str]] = {}
    for row in across.rows:
        if row.result in ("refused", "crash", "lacks", "apart", "unjudged") and not _cells_of(across, row):
            held.setdefault((row.result, _one(row)), []).append(row.family)
    for cell in across.cells:
        if cell.result in ("refused", "crash", "skipped"):
            who = f"{cell.library}: " if cell.library else ""
            held.setdefault((cell.result, who + cell.reason), []).append(f"{cell.family}/{cell.scenario}")
    order = {name: place for place, name in enumerate((*RESULTS, *FAMILIES))}
    for (result, reason), names in sorted(held.items(), key=lambda one: (order[one[0][0]], one[0][1])):
        yield result, reason, names


def _cells_of(across: Across, row: Row) -> bool:
    return any(cell.family == row.family for cell in across.cells)


def _one(row: Row) -> str:
    """Rows that lack a library have one reason: which of the two."""
    if row.result == "lacks":
        return f"{row.library} has no such language model"
    return (f"{row.library}: " if row.library else "") + row.reason
