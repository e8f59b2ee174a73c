"""Workflow commands of GitHub Actions: one annotation a finding, on the line where its step stands."""

from __future__ import annotations

from collections.abc import Sequence

from mlxdiag.inspect.findings import Finding, Report
from mlxdiag.reports import view as words
from mlxdiag.reports.escape import command_data, command_property
from mlxdiag.reports.view import View

LEVELS = {"error": "error", "warning": "warning", "info": "notice"}


def render(reports: Sequence[Report], view: View) -> str:
    """Annotations only, and nothing at all for a clean trace."""
    lines = [annotation(report, finding, view) for report in reports for finding in report.findings]
    return "".join(line + "\n" for line in lines)


def annotation(report: Report, finding: Finding, view: View) -> str:
    """`::error file=trace.yaml,line=7,title=MD101 mask-shorter-than-keys::step 5, sliding: the mask ...`."""
    properties = {"file": report.source or "trace"}
    line = words.line_of(view, report, finding)
    if line:
        properties["line"] = str(line)
    properties["title"] = f"{finding.code} {finding.name}"
    shown = ",".join(f"{key}={command_property(value)}" for key, value in properties.items())
    parts = [f"{words.place(finding)}: {finding.message}", *(f"cause: {cause}" for cause in finding.cause)]
    if finding.hint:
        parts.append(f"next: {finding.hint}")
    return f"::{LEVELS[finding.severity]} {shown}::{command_data(chr(10).join(parts))}"
