"""For scripts: the `mlxdiag.findings/1` document.

One trace gives its report as it is. Several give one document of the same shape: the findings of all,
each with its `source`, the summed counts, and the summary of each under `sources`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from mlxdiag.inspect.findings import SCHEMA, Finding, Report, Summary
from mlxdiag.reports.view import View


def render(reports: Sequence[Report], view: View) -> str:
    """The document, indented. Numbers that JSON lacks (NaN, infinities) become null."""
    return pretty(document(reports))


def document(reports: Sequence[Report]) -> dict[str, Any]:
    """The document as plain data, ready to encode."""
    found = [{**plain(finding), "source": report.source} for report in reports for finding in report.findings]
    joined: dict[str, Any] = {
        "schema": SCHEMA,
        "source": reports[0].source if len(reports) == 1 else None,
        "findings": found,
        "summary": add([report.summary for report in reports]),
        "sections": [section for report in reports for section in report.sections],
    }
    if len(reports) != 1:
        joined["sources"] = [{"source": report.source, "summary": report.summary} for report in reports]
    return joined


def pretty(value: Any) -> str:
    """JSON with an indent of two, and a line feed at the end."""
    return msgspec.json.format(encode(value), indent=2).decode() + "\n"


def plain(finding: Finding) -> dict[str, Any]:
    """A finding as a dict of its fields."""
    return {name: getattr(finding, name) for name in finding.__struct_fields__}


def add(summaries: Sequence[Summary]) -> Summary:
    """The counts of several traces as one."""
    total = Summary()
    for summary in summaries:
        for name in ("steps", "calls", "judged", "not_observed", "other", "errors", "warnings", "infos"):
            setattr(total, name, getattr(total, name) + getattr(summary, name))
        total.truncated = total.truncated or summary.truncated
        total.notes = [*total.notes, *summary.notes]
    return total


def encode(value: Any) -> bytes:
    """JSON bytes; a lone surrogate, which UTF-8 cannot hold, becomes a visible escape."""
    try:
        return msgspec.json.encode(value, enc_hook=str)
    except UnicodeEncodeError:
        return msgspec.json.encode(_escaped(msgspec.to_builtins(value, enc_hook=str)))


def _escaped(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, dict):
        return {_escaped(key): _escaped(item) for key, item in value.items()}
    return [_escaped(item) for item in value] if isinstance(value, list | tuple) else value
