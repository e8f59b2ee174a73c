"""For people: what is wrong, with its numbers, why, how far to trust it, and what to run next."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence

from mlxdiag.inspect.call import Call
from mlxdiag.inspect.findings import Finding, Report, Section
from mlxdiag.reports import masks
from mlxdiag.reports import view as words
from mlxdiag.reports.escape import log_line, printable
from mlxdiag.reports.view import PLAIN, View

PAINT = {
    "error": "\x1b[1;31m",
    "warning": "\x1b[1;33m",
    "info": "\x1b[36m",
    "title": "\x1b[1m",
    "dim": "\x1b[2m",
}


def render(reports: Sequence[Report], view: View) -> str:
    """Every report in turn: headline, findings, sections, and how much was judged."""
    return "\n\n".join("\n".join(_report(report, view)) for report in reports) + "\n"


def finding_lines(finding: Finding, view: View) -> Iterator[str]:
    """One finding: also what `inspect --follow` prints while the trace grows."""
    severity = _paint(finding.severity, finding.severity, view)
    yield f"{severity} {finding.code} {finding.name}  {log_line(printable(words.place(finding)))}"
    yield from _wrapped("", finding.message, view)
    for cause in finding.cause:
        yield from _wrapped("cause: ", cause, view)
    if finding.evidence:
        yield from _wrapped("numbers: ", "  ".join(words.evidence(finding)), view)
    yield from _wrapped("rests on ", words.RESTS_ON.get(finding.rests_on, finding.rests_on), view)
    if finding.hint:
        yield from _wrapped("next: ", finding.hint, view)


def closing_lines(report: Report, view: View) -> Iterator[str]:
    """The last lines of a report: how much was judged, and the notes."""
    yield f"{words.coverage(report.summary)}."
    if report.summary.truncated:
        yield words.CUT_OFF
    for note in report.summary.notes:
        yield from _wrapped("note: ", note, view, indent="")


def _report(report: Report, view: View) -> Iterator[str]:
    yield _paint("title", log_line(f"{printable(report.source or 'trace')}: {words.verdict(report)}"), view)
    for section in report.sections:
        if section.lead:
            yield ""
            yield from _section(section, view)
    for finding in report.findings:
        yield ""
        yield from finding_lines(finding, view)
    if report.source in view.drawn and report.findings:
        yield ""
        yield from _drawing(view.drawn[report.source], view)
    for section in report.sections:
        if not section.lead:
            yield ""
            yield from _section(section, view)
    yield ""
    yield from closing_lines(report, view)


def _drawing(call: Call, view: View) -> Iterator[str]:
    title, *lines = masks.draw(call, width=view.width, colour=view.colour) or [""]
    if title:
        yield _paint("title", log_line(printable(title)), view)
    yield from (f"  {line}" for line in lines)


def _section(section: Section, view: View) -> Iterator[str]:
    yield _paint("title", log_line(printable(section.title)), view)
    for line in section.lines:
        yield from _wrapped("", line, view)
    if not section.rows:
        return
    table = [[printable(text) for text in section.header]]
    table += [[printable(words.cell(cell)) for cell in row] for row in section.rows]
    widths = [max(len(row[i]) for row in table if i < len(row)) for i in range(max(map(len, table)))]
    for row in table:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=False))
        yield log_line("  " + "  ".join(cells).rstrip())


def _wrapped(label: str, text: str, view: View, indent: str = "  ") -> Iterator[str]:
    line = log_line(f"{indent}{label}{printable(text)}")
    if view.width is None:
        yield line
        return
    hanging = indent + " " * len(label)
    body = line.removeprefix(indent)
    yield from textwrap.wrap(
        body, view.width, initial_indent=indent, subsequent_indent=hanging, break_on_hyphens=False
    ) or [line]


def _paint(kind: str, text: str, view: View) -> str:
    return f"{PAINT[kind]}{text}{PLAIN}" if view.colour else text
