"""JUnit XML: a suite per trace, a case per finding, in the dialect that CI servers agree on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from mlxdiag.inspect.findings import Finding, Report
from mlxdiag.reports import view as words
from mlxdiag.reports.escape import xml
from mlxdiag.reports.text import finding_lines
from mlxdiag.reports.view import View


def render(reports: Sequence[Report], view: View) -> str:
    """A failure is what fails the run: errors, and warnings too under `--fail-on warning`."""
    suites = [_suite(report, view) for report in reports]
    cases = sum(max(1, len(report.findings)) for report in reports)
    failures = sum(_fails(finding, view) for report in reports for finding in report.findings)
    head = f'<testsuites name="mlxdiag" tests="{cases}" failures="{failures}" errors="0">'
    return "\n".join(['<?xml version="1.0" encoding="UTF-8"?>', head, *suites, "</testsuites>"]) + "\n"


def _fails(finding: Finding, view: View) -> bool:
    return finding.severity == "error" or (finding.severity == "warning" and view.fail_on == "warning")


def _suite(report: Report, view: View) -> str:
    name = xml(report.source or "trace")
    failures = sum(_fails(finding, view) for finding in report.findings)
    skipped = int(not report.findings and words.nothing_judged(report.summary))
    tests = max(1, len(report.findings))
    lines = [
        f'  <testsuite name="{name}" tests="{tests}" failures="{failures}" errors="0" skipped="{skipped}">',
        *_properties(report),
        *(_case(finding, name, view) for finding in report.findings),
        *([] if report.findings else _empty(report, name)),
        "  </testsuite>",
    ]
    return "\n".join(lines)


def _properties(report: Report) -> Iterator[str]:
    summary = report.summary
    yield "    <properties>"
    for key in ("steps", "calls", "judged", "not_observed", "other"):
        yield f'      <property name="{key}" value="{getattr(summary, key)}"/>'
    yield "    </properties>"


def _case(finding: Finding, classname: str, view: View) -> str:
    plain = View()
    title = xml(f"{finding.code} {finding.name}: {words.place(finding)}")
    text = xml("\n".join(finding_lines(finding, plain)))
    head = f'    <testcase classname="{classname}" name="{title}"'
    if not _fails(finding, view):
        return f"{head}><system-out>{text}</system-out></testcase>"
    failure = f'<failure type="{finding.severity}" message="{xml(finding.message)}">{text}</failure>'
    return f"{head}>{failure}</testcase>"


def _empty(report: Report, classname: str) -> Iterator[str]:
    text = xml(words.verdict(report))
    head = f'    <testcase classname="{classname}" name="no rule fired"'
    skipped = words.nothing_judged(report.summary)
    yield f'{head}><skipped message="{text}"/></testcase>' if skipped else f"{head}/>"
