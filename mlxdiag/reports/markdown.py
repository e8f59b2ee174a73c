"""Markdown, for an issue or a job summary."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from mlxdiag.inspect.findings import Finding, Report, Section
from mlxdiag.reports import view as words
from mlxdiag.reports.escape import markdown as safe
from mlxdiag.reports.view import View


def render(reports: Sequence[Report], view: View) -> str:
    """A heading per trace, a table of the findings, then each with its cause and numbers."""
    return "\n\n".join("\n".join(_report(report)) for report in reports) + "\n"


def _report(report: Report) -> Iterator[str]:
    yield f"## {safe(report.source or 'trace')}: {safe(words.verdict(report))}"
    for section in report.sections:
        if section.lead:
            yield from _section(section)
    if report.findings:
        yield ""
        rows = [[f.severity, f"{f.code} {f.name}", words.place(f), f.message] for f in report.findings]
        yield from table(["severity", "rule", "where", "what"], rows)
    for finding in report.findings:
        yield from _details(finding)
    for section in report.sections:
        if not section.lead:
            yield from _section(section)
    yield ""
    yield safe(words.coverage(report.summary)) + "."
    for note in report.summary.notes:
        yield f"\nNote: {safe(note)}"


def _details(finding: Finding) -> Iterator[str]:
    yield f"\n### {safe(f'{finding.code} {finding.name}')}: {safe(words.place(finding))}\n"
    yield safe(finding.message)
    yield ""
    for cause in finding.cause:
        yield f"- cause: {safe(cause)}"
    if finding.evidence:
        yield f"- numbers: {safe(', '.join(words.evidence(finding)))}"
    yield f"- rests on {safe(words.RESTS_ON.get(finding.rests_on, finding.rests_on))}"
    if finding.hint:
        yield f"- next: {safe(finding.hint)}"


def _section(section: Section) -> Iterator[str]:
    yield f"\n### {safe(section.title)}\n"
    for line in section.lines:
        yield safe(line)
    if section.rows:
        yield ""
        yield from table(section.header, [[words.cell(cell) for cell in row] for row in section.rows])


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """A GitHub table; every cell is escaped here."""
    for row in (header, ["---"] * len(header), *rows):
        cells = (cell if cell == "---" else safe(cell) for cell in row)
        yield f"| {' | '.join(cells)} |"
