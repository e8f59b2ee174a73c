"""From reports to an exit code: the same in every format, whoever reads the output."""

from __future__ import annotations

from collections.abc import Sequence

from mlxdiag.cli.settings import Settings
from mlxdiag.errors import CLEAN, FINDINGS, UNJUDGED
from mlxdiag.inspect.findings import Finding, Report
from mlxdiag.reports.view import nothing_judged


def exit_code(reports: Sequence[Report], settings: Settings) -> int:
    """1 for findings that count, 4 where a report judged nothing, else 0; `--expect` compares instead.

    A report that judged nothing is never clean, expected or not.
    """
    if settings.expect is None and any(fails(f, settings) for report in reports for f in report.findings):
        return FINDINGS
    if not reports or any(unjudged(report) for report in reports):
        return UNJUDGED
    if settings.expect is not None and seen(reports, settings.expect) != set(settings.expect):
        return FINDINGS
    return CLEAN


def fails(finding: Finding, settings: Settings) -> bool:
    """Errors fail a run, warnings when asked, infos never."""
    return finding.severity == "error" or (finding.severity == "warning" and settings.fail_on == "warning")


def unjudged(report: Report) -> bool:
    """True where no rule saw what it needs, so that finding no error says nothing.

    A warning that the trace is cut off, say, does not make up for it.
    """
    return nothing_judged(report.summary) and not any(f.severity == "error" for f in report.findings)


def seen(reports: Sequence[Report], expected: Sequence[str]) -> set[str]:
    """The codes that `--expect` compares: every headline from warning up, and infos named in `expected`."""
    found = (finding for report in reports for finding in report.findings)
    return {f.code for f in found if f.severity != "info" or f.code in expected}


def explanation(reports: Sequence[Report], settings: Settings) -> list[str]:
    """Sentences for standard error where the exit code needs one."""
    lines = [_why_unjudged(report) for report in reports if unjudged(report)]
    if settings.expect is None:
        return lines
    found, expected = seen(reports, settings.expect), set(settings.expect)
    if found == expected:
        return [*lines, f"as expected: {_names(expected)}"]
    return [*lines, f"expected {_names(expected)}, seen {_names(found)}"]


def _why_unjudged(report: Report) -> str:
    summary = report.summary
    name = report.source or "the trace"
    if not summary.calls:
        return f"could not judge {name}: none of its {summary.steps} steps says what its attention layers did"
    lacking = f"{summary.not_observed} of {summary.calls} attention calls"
    return f"could not judge {name}: {lacking} lack what the rules need (offset, q, k, mask)"


def _names(codes: set[str]) -> str:
    return ", ".join(sorted(codes)) or "no finding"
