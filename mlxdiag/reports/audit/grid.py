"""The table of families x scenarios as text: numbered columns with a key, in blocks that fit the width."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence

from mlxdiag.audit.cell import Audit, Cell
from mlxdiag.audit.engine.table import COLUMNS
from mlxdiag.reports.audit import shown as words
from mlxdiag.reports.escape import log_line, printable
from mlxdiag.reports.view import count

TITLES = {scenario.name: scenario.title for scenario in COLUMNS}
CELL = 4
"""Characters: three letters at most and a blank."""


def lines(audit: Audit, width: int, *, unfold: bool) -> Iterator[str]:
    """The table, its legend and its key; rows without a wrong cell are only named unless unfolded."""
    rows = words.families(audit)
    wrong = {name for name, cells in rows.items() if any(cell.wrong for cell in cells)}
    shown = {name: cells for name, cells in rows.items() if unfold or name in wrong}
    names = words.columns(audit)
    if shown:
        yield from _blocks(shown, names, width)
        yield ""
        yield legend()
        yield ""
        yield from key(names)
    folded = sorted(set(rows) - set(shown) - set(words.skipped_families(audit)))
    if folded:
        if shown:
            yield ""
        text = f"{count(len(folded), 'row')} without a wrong cell (--all shows them): {', '.join(folded)}"
        for line in textwrap.wrap(printable(text), width, subsequent_indent="  ", break_on_hyphens=False):
            yield log_line(line)


def legend() -> str:
    """What the symbols mean, on one line."""
    return "  ".join(f"{sign} {meaning}" for sign, meaning in words.LEGEND)


def key(names: Sequence[str]) -> Iterator[str]:
    """What the numbers over the columns mean."""
    longest = max(map(len, names), default=0)
    for number, name in enumerate(names, 1):
        yield f"{number:3}  {printable(name):{longest}}  {TITLES.get(name, '')}".rstrip()


def _blocks(rows: dict[str, list[Cell]], names: Sequence[str], width: int) -> Iterator[str]:
    label = max(map(len, rows)) + 1
    fit = max(1, (width - label) // CELL)
    cells = {(cell.family, cell.scenario): cell for held in rows.values() for cell in held}
    for begin in range(0, len(names), fit):
        part = names[begin : begin + fit]
        if begin:
            yield ""
        numbers = (f"{number:<{CELL}}" for number in range(begin + 1, begin + len(part) + 1))
        yield (" " * label + "".join(numbers)).rstrip()
        for family in rows:
            signs = (f"{words.symbol(cells.get((family, name))):<{CELL}}" for name in part)
            yield log_line(f"{printable(family):<{label}}{''.join(signs)}".rstrip())
