"""SARIF 2.1.0, for code scanning: one run, the rules that fired, a result per finding."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath
from typing import Any
from urllib.parse import quote

from mlxdiag import __version__
from mlxdiag.inspect.findings import Finding, Report
from mlxdiag.reports import json
from mlxdiag.reports import view as words
from mlxdiag.reports.escape import printable
from mlxdiag.reports.view import View

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
LEVELS = {"error": "error", "warning": "warning", "info": "note"}


def render(reports: Sequence[Report], view: View) -> str:
    """The log, indented."""
    found = [(report, finding) for report in reports for finding in report.findings]
    rules = list({finding.code: finding for _, finding in found}.values())
    index = {finding.code: i for i, finding in enumerate(rules)}
    driver = {
        "name": "mlxdiag",
        "version": __version__,
        "rules": [rule(one.code, one.name, LEVELS[one.severity]) for one in rules],
    }
    run = {
        "tool": {"driver": driver},
        "columnKind": "unicodeCodePoints",
        "results": [_result(report, finding, index[finding.code], view) for report, finding in found],
        "properties": {
            "sources": [{"source": report.source, "summary": report.summary} for report in reports],
            "sections": [section for report in reports for section in report.sections],
        },
    }
    log = {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}
    return json.pretty(log)


def rule(code: str, name: str, level: str) -> dict[str, Any]:
    """A rule as SARIF describes it; `level` is what its results have unless they say otherwise."""
    return {
        "id": code,
        "name": "".join(word.capitalize() for word in name.split("-")),
        "shortDescription": {"text": name.replace("-", " ")},
        "help": {"text": f"mlxdiag rule {code}"},
        "defaultConfiguration": {"level": level},
    }


def _result(report: Report, finding: Finding, index: int, view: View) -> dict[str, Any]:
    return {
        "ruleId": finding.code,
        "ruleIndex": index,
        "level": LEVELS[finding.severity],
        "message": {"text": message(f"{finding.message} ({words.place(finding)})")},
        "locations": [_location(report, finding, view)],
        "occurrenceCount": finding.count,
        "partialFingerprints": {
            "mlxdiag/v1": f"{finding.code}:{finding.step}:{finding.seq}:{finding.family}"
        },
        "properties": json.plain(finding),
    }


def _location(report: Report, finding: Finding, view: View) -> dict[str, Any]:
    physical: dict[str, Any] = {"artifactLocation": {"uri": _uri(report.source or "trace")}}
    line = words.line_of(view, report, finding)
    if line:
        physical["region"] = {"startLine": line}
    return {
        "physicalLocation": physical,
        "logicalLocations": [{"fullyQualifiedName": printable(words.place(finding)), "kind": "member"}],
    }


def _uri(path: str) -> str:
    pure = PurePath(path)
    quoted = quote(pure.as_posix(), errors="surrogateescape")
    return "file://" + quoted if pure.is_absolute() else quoted


def message(text: str) -> str:
    """One line in which no viewer finds a link: SARIF reads `[text](target)` even in plain text."""
    return printable(text).replace("](", "]\\(")
