"""What every renderer is given beside the reports, and what they all say in the same words."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from mlxdiag.inspect.call import Call
from mlxdiag.inspect.findings import Finding, Report, Summary

RESTS_ON = {
    "geometry": "geometry: shapes and counters alone",
    "visibility": "visibility: the positions that each query really attended",
    "parity": "parity: logits against a single pass of the same tokens",
    "tokens": "tokens: classes and cycles of what was emitted",
    "run": "the run: how the program went on or ended",
}

CUT_OFF = "The trace is cut off: what came after its last whole line was not judged."
PLAIN = "\x1b[0m"
"""Ends a colour of the terminal."""
LONGEST_LIST = 4
LONGEST_VALUE = 160


class View(msgspec.Struct, frozen=True, kw_only=True):
    """How to show. The defaults are right for a file."""

    colour: bool = False
    width: int | None = None
    """Columns to wrap text at; None never wraps, so that `grep` sees whole sentences."""
    lines: Mapping[str, Mapping[int, int]] = {}
    """Per source, the line of the file where a step stands, from 1."""
    fail_on: str = "error"
    drawn: Mapping[str | None, Call] = {}
    """Per source, the call whose mask is drawn; of the text format only."""


Renderer = Callable[[Sequence[Report], View], str]


def line_of(view: View, report: Report, finding: Finding) -> int | None:
    """Where in its file the finding's step stands, counted from 1."""
    if finding.step is None or report.source is None:
        return None
    return view.lines.get(report.source, {}).get(finding.step)


def place(finding: Finding) -> str:
    """`step 5, seq-6, sliding (35 times)`."""
    parts = [f"step {finding.step}"] if finding.step is not None else []
    parts += [part for part in (finding.seq, finding.family) if part]
    again = f" ({finding.count} times)" if finding.count > 1 else ""
    return (", ".join(parts) or "whole trace") + again


def count(number: int, noun: str, plural: str = "") -> str:
    """`1 error`, `2 errors`; of a noun that takes more than an s, `plural` is the other form."""
    return f"{number} {noun}" if number == 1 else f"{number} {plural or noun + 's'}"


def tally(summary: Summary) -> str:
    """`2 errors, 0 warnings, 1 info`."""
    return f"{count(summary.errors, 'error')}, {count(summary.warnings, 'warning')}, {summary.infos} info"


def nothing_judged(summary: Summary) -> bool:
    """Neither an attention call nor anything else, such as emitted tokens, could be judged."""
    return not summary.judged and not summary.other


def coverage(summary: Summary) -> str:
    """How much was judged; what was not is always said."""
    seen = f"{count(summary.steps, 'step')}, {count(summary.calls, 'attention call')}"
    beside = f"; {summary.other} without a call judged on other evidence" if summary.other else ""
    return f"{seen}: {summary.judged} judged, {summary.not_observed} not observed{beside}"


def verdict(report: Report) -> str:
    """One sentence; never "clean" for what was not seen."""
    summary = report.summary
    if report.findings:
        return tally(summary) + (f" ({summary.hidden} hidden)" if summary.hidden else "")
    if summary.caveat:
        return f"no rule fired, but {summary.caveat}"
    if summary.hidden:
        return f"nothing to show: {count(summary.hidden, 'finding')} hidden by --select or --ignore"
    if nothing_judged(summary):
        return "nothing could be judged, which is not the same as clean"
    if not summary.judged:
        return "no rule fired, but no attention call could be judged"
    if summary.not_observed:
        unseen = f"{summary.not_observed} lack what the rules need"
        return f"no rule fired on the {summary.judged} calls that could be judged; {unseen}"
    return "clean: no rule fired"


def evidence(finding: Finding) -> list[str]:
    """`q=160`, `mask=[160, 160]`, long values cut short with their length."""
    return list(_pairs(finding.evidence))


def _pairs(numbers: Mapping[str, Any]) -> Iterator[str]:
    """Those of a layer family, where several are told together, after its name."""
    for key, value in numbers.items():
        if isinstance(value, Mapping):
            yield f"{key}:"
            yield from _pairs(value)
        else:
            yield f"{key}={shorten(value)}"


def shorten(value: Any) -> str:
    """A value on one line. Lists show their first items and how many more there are."""
    if isinstance(value, list | tuple) and len(value) > LONGEST_LIST:
        shown = ", ".join(shorten(item) for item in value[:LONGEST_LIST])
        return f"[{shown}, and {len(value) - LONGEST_LIST} more]"
    if isinstance(value, float):
        return f"{value:.4g}"
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= LONGEST_VALUE else text[: LONGEST_VALUE - 3] + "..."


def cell(value: str | int | float | bool | None) -> str:
    """A cell of a section's table: `-` for not observed, floats with four digits."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.4g}" if isinstance(value, float) else str(value)
