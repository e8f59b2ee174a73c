"""The mask around a fault, in the terminal: queries down, keys across, a letter for what went wrong.

Every letter is plain ASCII, so that a log, a pipe and a screen reader get the same; colour only repeats it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from mlxdiag.inspect.call import Call, build
from mlxdiag.inspect.findings import Finding
from mlxdiag.inspect.run import Run
from mlxdiag.reports import attended as look
from mlxdiag.reports.attended import Attended
from mlxdiag.reports.view import PLAIN
from mlxdiag.traces.types import Entry, Trace

ROWS = 12
COLUMNS = 64
"""Characters of a drawing at most."""
LETTERS = {
    look.FOREIGN: "f",
    look.PADDING: "p",
    look.FUTURE: ">",
    look.MISSING: "x",
    look.OLD: "o",
    look.PARTLY: "~",
    look.DUE: "?",
    look.RIGHT: "#",
    look.BLANK: ".",
}
"""The gravest first: it is what a letter that stands for many keys shows."""
MEANING = {
    look.FOREIGN: "another sequence's key seen",
    look.PADDING: "padding or a token taken back seen",
    look.FUTURE: "a later position seen",
    look.MISSING: "due, not seen",
    look.OLD: "seen, older than due",
    look.PARTLY: "seen with gaps",
    look.DUE: "due; not recorded whether seen",
    look.RIGHT: "due and seen",
    look.BLANK: "rightly not seen",
}
PAINT = {look.RIGHT: "\x1b[34m", look.DUE: "\x1b[34m", look.BLANK: "\x1b[2m"}
WRONG = "\x1b[1;31m"
_RANK = {kind: rank for rank, kind in enumerate(LETTERS)}


class Keeper:
    """Keeps the call to draw while a trace is judged: the first of an error, else of a warning."""

    def __init__(self) -> None:
        self._held: dict[str, Call] = {}

    def take(self, entry: Entry, found: Sequence[Finding], run: Run) -> None:
        """After `entry` was judged and before the next: `found` is what is new in it."""
        for finding in found:
            if finding.severity != "info" and finding.severity not in self._held and entry.attention:
                call = _worst(entry, finding, run)
                if call is not None:
                    self._held[finding.severity] = call

    @property
    def call(self) -> Call | None:
        return self._held.get("error") or self._held.get("warning")


def of_trace(trace: Trace, findings: Sequence[Finding]) -> Call | None:
    """The call to draw of a trace that was judged before."""
    keeper, run = Keeper(), Run(trace.header)
    at: dict[int, list[Finding]] = {}
    for finding in findings:
        if finding.step is not None:
            at.setdefault(finding.step, []).append(finding)
    for entry in trace.entries:
        run.enter(entry)
        if entry.step is not None and entry.step in at:
            keeper.take(entry, at[entry.step], run)
    return keeper.call


def _worst(entry: Entry, finding: Finding, run: Run) -> Call | None:
    """Of the layer families that the finding names, else of all: the first that shows something."""
    named = set((finding.family or "").split(", ")) - {""}
    for index, attention in enumerate(entry.attention or ()):
        if not named or attention.family in named:
            call = build(entry, index, run)
            if _tells(call):
                return call
    return None


def _tells(call: Call) -> bool:
    misfit = call.m is not None and call.k is not None and call.m != call.k
    return misfit or any(row.wrong for row in look.rows_of(call))


def draw(call: Call, *, width: int | None = None, colour: bool = False) -> list[str]:
    """Lines without their line breaks; none where there is nothing to show."""
    rows = [row for row in look.rows_of(call) if row.queries and row.span is not None]
    if not rows:
        return []
    row = max(rows, key=lambda one: one.wrong)
    lines = [_title(call, row), *_lengths(call)]
    if row.wrong:
        columns = min(COLUMNS, max(16, (width or 100) - 14))
        lines += _picture(row, columns, colour)
    return lines


def _title(call: Call, row: Attended) -> str:
    step = f"step {call.entry.step}" if call.entry.step is not None else call.entry.kind
    where = ", ".join(part for part in (step, row.seq, row.family) if part)
    real = [query for query in row.queries if query.real]
    if row.origin == look.UNSEEN:
        return f"{where}: {len(real)} queries; {row.basis}"
    how = "" if row.origin == look.OBSERVED else " (derived from shapes)"
    return f"{where}: {row.wrong} of {len(real)} queries do not see what they must{how}"


def _lengths(call: Call) -> Iterator[str]:
    """Two bars at one scale where the mask does not fit."""
    k, m = call.k, call.m
    if k is None or m is None or k == m:
        return
    scale = 40 / max(k, m)
    for name, size in (("keys", k), ("mask", m)):
        yield f"{name} {size:>6} {'=' * max(round(size * scale), 1)}"


def _picture(row: Attended, columns: int, colour: bool) -> Iterator[str]:
    low, high = row.span or (0, 0)
    grid = cells(row, columns)
    width = len(grid[0][1])
    oldest, newest = f"key {low}", f"key {high}"
    room = width - len(oldest)
    ruler = oldest + newest.rjust(room) if room > len(newest) else f"keys {low} to {high}"
    yield f"{'query':>7}  {ruler}"
    for position, kinds in grid:
        yield f"{position:>7}  {''.join(_letter(kind, colour) for kind in kinds)}"
    shown = {kind for _, kinds in grid for kind in kinds}
    yield "  ".join(
        f"{letter} {MEANING[kind]}" for kind, letter in reversed(LETTERS.items()) if kind in shown
    )


def _letter(kind: str, colour: bool) -> str:
    letter = LETTERS[kind]
    return f"{PAINT.get(kind, WRONG)}{letter}{PLAIN}" if colour else letter


def cells(row: Attended, columns: int, rows: int = ROWS) -> list[tuple[int, list[str]]]:
    """The first query of each line, and the gravest class in each of its cells.

    Keys without a position of this sequence (padding, another's) stand in a cell of their own, the first.
    """
    low, high = row.span or (0, 0)
    real = [index for index, query in enumerate(row.queries) if query.real] or [0]
    first, last = real[0], real[-1]
    tall = -(-(last - first + 1) // rows)
    wide = -(-(high - low + 1) // columns)
    across = -(-(high - low + 1) // wide)
    astray = int(bool(row.foreign) or any(position < 0 for _, position in row.padding))
    grid = []
    for top in range(first, last + 1, tall):
        kinds = [look.BLANK] * (across + astray)
        for index in range(top, min(top + tall, last + 1)):
            for kind, begin, end in _marks(row, index):
                begin, end = (max(at - low, 0) // wide + astray if at >= 0 else 0 for at in (begin, end))
                for column in range(begin, min(end, across + astray - 1) + 1):
                    kinds[column] = min(kinds[column], kind, key=_RANK.__getitem__)
        grid.append((row.queries[top].position, kinds))
    return grid


def _marks(row: Attended, index: int) -> Iterator[tuple[str, int, int]]:
    for kind, (begin, end) in look.parts(row.queries[index]):
        yield kind, begin, end
    for kind, listed in (
        (look.MISSING, row.missing),
        (look.PADDING, row.padding),
        (look.FOREIGN, row.foreign),
    ):
        for query, position in listed:
            if query == index:
                at = -1 if kind == look.FOREIGN else position
                yield kind, at, at
