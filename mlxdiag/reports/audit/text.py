"""For people: the table, the faults with their causes, what was skipped and why, and what to run next."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator

from mlxdiag.audit.cell import Fault
from mlxdiag.reports.audit import compared, grid
from mlxdiag.reports.audit import shown as words
from mlxdiag.reports.audit.shown import Shown
from mlxdiag.reports.escape import log_line, printable
from mlxdiag.reports.text import PAINT
from mlxdiag.reports.view import PLAIN, count

WIDTH = 110
"""Of the table where no terminal says otherwise."""


def render(shown: Shown) -> str:
    """The whole report."""
    return "\n".join(line.rstrip() for line in _lines(shown)) + "\n"


def _lines(shown: Shown) -> Iterator[str]:
    audit = shown.audit
    yield _title(f"{words.subject(audit)}: {words.verdict(shown)}", shown)
    yield ""
    told, accepted = words.parted(shown)
    table = grid.lines(audit, shown.width or WIDTH, unfold=shown.unfold)
    if shown.difference is None:
        yield from table
        yield from _faults(told, shown)
    else:
        # What fails the run is not looked for behind what is known.
        yield from _difference(shown)
        yield from _faults(told, shown)
        yield ""
        yield from table
        yield from _accepted(accepted, shown)
    if shown.comparison is not None:
        yield ""
        for line in compared.lines(shown.comparison):
            yield from _wrapped("", line, shown, "")
    yield from _excused(shown)
    yield from _skipped(shown)
    yield ""
    yield words.coverage(audit) + "."
    yield words.tally(audit) + "."
    for note in audit.notes:
        yield from _wrapped("note: ", note, shown, "")


def _faults(faults: Iterable[Fault], shown: Shown) -> Iterator[str]:
    for fault in faults:
        yield ""
        yield from fault_lines(fault, shown)


def fault_lines(fault: Fault, shown: Shown) -> Iterator[str]:
    """One paragraph."""
    state = words.state(fault, shown)
    severity = "info" if state == "accepted" else "error"
    word = f"{PAINT[severity]}fault{PLAIN}" if shown.colour else "fault"
    known = f" ({state})" if state else ""
    yield f"{word} {fault.id}  {words.rule(fault.code)}  {count(len(fault.cells), 'cell')}{known}"
    for label, value in words.details(fault, shown):
        yield from _wrapped(f"{label}: ", value, shown, "  ")


def _difference(shown: Shown) -> Iterator[str]:
    for line in words.baseline_lines(shown):
        yield from _wrapped("baseline: ", line, shown, "")


def _accepted(faults: list[Fault], shown: Shown) -> Iterator[str]:
    """A line each, or in full where all is asked for."""
    if shown.unfold:
        yield from _faults(faults, shown)
    elif faults:
        yield ""
        yield f"{count(len(faults), 'fault')} accepted by the baseline (--all tells them in full)"
        for fault in faults:
            yield from _wrapped("", words.accepted_line(fault), shown, "  ")


def _excused(shown: Shown) -> Iterator[str]:
    for name, cells in words.excused(shown.audit).items():
        yield ""
        families = words.few(sorted({cell.family for cell in cells}))
        yield f"excused {name}  {count(len(cells), 'cell')}"
        yield from _wrapped("why: ", cells[0].reason, shown, "  ")
        yield from _wrapped("families: ", families, shown, "  ")


def _skipped(shown: Shown) -> Iterator[str]:
    skipped = words.skipped_families(shown.audit)
    if skipped:
        yield ""
        yield "skipped families"
    for name, reason in skipped.items():
        yield from _wrapped(f"{name}: ", reason.removeprefix(f"{name} "), shown, "  ")
    lost = [cell for cell in shown.audit.cells if words.unfinished(cell)]
    if lost:
        yield ""
        yield f"{count(len(lost), 'cell')} without a verdict, by a fault of mlxdiag"
    for cell in lost:
        yield from _wrapped(f"{cell.family}/{cell.scenario}: ", cell.reason, shown, "  ")


def _wrapped(label: str, text: str, shown: Shown, indent: str) -> Iterator[str]:
    line = log_line(f"{indent}{label}{printable(text)}")
    if shown.width is None:
        yield line
        return
    yield from textwrap.wrap(
        line.removeprefix(indent),
        max(40, shown.width),
        initial_indent=indent,
        subsequent_indent=indent + "  ",
        break_on_hyphens=False,
    ) or [line]


def _title(text: str, shown: Shown) -> str:
    line = log_line(printable(text))
    return f"{PAINT['title']}{line}{PLAIN}" if shown.colour else line
