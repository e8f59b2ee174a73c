"""For people: the table, what differs and why, what could not be compared, and the counts."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

from mlxdiag.audit.across.cell import Across
from mlxdiag.inspect.rules.md4.parity import MEANINGS as KINDS
from mlxdiag.reports.across import words
from mlxdiag.reports.escape import log_line, printable
from mlxdiag.reports.view import count

WIDTH = 110
CELL = 3
MOST = 6
"""Names listed for one reason, before the rest is counted."""


def render(across: Across) -> str:
    """The whole report."""
    return "\n".join(line.rstrip() for line in _lines(across)) + "\n"


def _lines(across: Across) -> Iterator[str]:
    yield log_line(f"{words.subject(across)}: {words.verdict(across)}")
    yield ""
    yield from _table(across)
    for difference in across.differences:
        yield ""
        yield f"MD403 {difference.id}: {KINDS[difference.kind]}"
        own = [cell for cell in across.cells if difference.id in cell.causes]
        for label, value in words.details(difference, own):
            yield from _wrapped(f"{label}: ", value, "  ")
    for library, scenarios in words.ones_own(across):
        yield ""
        yield from _wrapped(f"faults of {library}'s own, told by its own table: ", ", ".join(scenarios), "")
    yield from _reasons(across)
    yield ""
    yield from _wrapped("", words.families_line(across) + ".", "")
    yield from _wrapped("", words.cells_line(across) + ".", "")
    if noise := words.noise_line(across):
        yield from _wrapped("", noise + ".", "")
    for note in across.notes:
        yield from _wrapped("note: ", note, "")


def _table(across: Across) -> Iterator[str]:
    names = words.columns(across)
    if not names:
        return
    rows = list(words.signs(across))
    label = max(len(row.family) for row, _ in rows) + 1
    yield " " * label + "".join(f"{number:<{CELL}}" for number in range(1, len(names) + 1))
    for row, signs in rows:
        yield log_line(f"{printable(row.family):<{label}}{''.join(f'{sign:<{CELL}}' for sign in signs)}")
    yield ""
    yield from _wrapped("", "  ".join(f"{sign} {meaning}" for sign, meaning in words.LEGEND), "")
    yield ""
    longest = max(map(len, names))
    for number, name in enumerate(names, 1):
        yield f"{number:3}  {name:{longest}}  {words.TITLES.get(name, '')}"


def _reasons(across: Across) -> Iterator[str]:
    for result, reason, where in words.reasons(across):
        shown = ", ".join(where[:MOST]) + (f" and {len(where) - MOST} more" if len(where) > MOST else "")
        yield ""
        yield from _wrapped(
            f"{words.MEANINGS[result]} ({count(len(where), 'time')}): ", f"{reason}: {shown}", ""
        )


def _wrapped(label: str, text: str, indent: str) -> Iterator[str]:
    whole = printable(f"{label}{text}")
    for line in textwrap.wrap(
        whole, WIDTH, initial_indent=indent, subsequent_indent=indent + "  ", break_on_hyphens=False
    ):
        yield log_line(line)
