"""The verdict and what stands behind it: the same words as the text report."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from mlxdiag.inspect.findings import SEVERITIES, Finding, Report
from mlxdiag.reports import view as words
from mlxdiag.reports.html.markup import Html, join, tag

SIGNS = {"error": "✕", "warning": "!", "info": "i"}
MOST = 200
"""Findings shown in full; the others are counted."""


def verdict(report: Report) -> Html:
    """The headline: one sentence, and the worst finding's name and place."""
    worst = headline(report)
    kind = worst.severity if worst else "clean" if words.verdict(report).startswith("clean") else "unknown"
    lead = (
        tag(
            "p",
            tag("a", f"{worst.name.replace('-', ' ')}: {words.place(worst)}", href="#finding-1"),
            class_="lead",
        )
        if worst
        else ""
    )
    sign = SIGNS.get(kind, "✓" if kind == "clean" else "?")
    return tag(
        "div",
        tag(
            "p", tag("span", sign, class_="sign", aria_hidden="true"), words.verdict(report), class_="verdict"
        ),
        lead,
        class_=f"top {kind}",
    )


def headline(report: Report) -> Finding | None:
    """The first of the gravest findings: the order in which they are shown."""
    return ordered(report)[0] if report.findings else None


def ordered(report: Report) -> list[Finding]:
    """Errors first, each kind in the order of the trace."""
    return sorted(report.findings, key=lambda finding: -SEVERITIES.index(finding.severity))


def listing(report: Report) -> tuple[Html, Html]:
    """Every finding in full: the headline, and the others."""
    found = ordered(report)
    shown = [_finding(number, finding) for number, finding in enumerate(found[:MOST], 1)]
    if len(found) > MOST:
        shown.append(
            tag("p", f"{len(found) - MOST} further findings: mlxdiag inspect lists them.", class_="note")
        )
    return join(shown[:1]), join(shown[1:])


def _finding(number: int, finding: Finding) -> Html:
    sign = tag("span", SIGNS.get(finding.severity, "?"), class_="sign", aria_hidden="true")
    head = tag(
        "h3",
        sign,
        tag("span", f"{finding.severity} ", class_="severity"),
        tag("code", finding.code),
        f" {finding.name}",
        tag("span", words.place(finding), class_="place"),
        id=f"finding-{number}",
    )
    parts = [head, tag("p", finding.message)]
    if finding.cause:
        causes = (tag("li", *_cause(cause)) for cause in finding.cause)
        parts.append(tag("div", tag("h4", "Because"), tag("ol", join(causes), class_="causes")))
    if finding.evidence:
        parts.append(
            tag("div", tag("h4", "Numbers"), tag("dl", join(_numbers(finding.evidence)), class_="numbers"))
        )
    rests = words.RESTS_ON.get(finding.rests_on, finding.rests_on)
    parts.append(tag("p", f"Rests on {rests}.", class_="note"))
    if finding.hint:
        parts.append(tag("p", tag("span", "next", class_="label"), tag("code", finding.hint), class_="next"))
    return tag("article", *parts, class_=f"finding {finding.severity}")


def _cause(cause: str) -> Iterator[Html | str]:
    """`CODE name: sentence`, its rule set apart."""
    rule, colon, sentence = cause.partition(": ")
    if colon and rule[:2] == "MD" and rule[2:5].isdigit():
        yield tag("b", rule)
        yield ": " + sentence
    else:
        yield cause


def _numbers(evidence: Mapping[str, Any], family: str = "") -> Iterator[Html]:
    for key, value in evidence.items():
        name = f"{family} {key}".strip().replace("_", " ")
        if isinstance(value, Mapping):
            yield from _numbers(value, str(key))
        else:
            yield tag("div", tag("dt", name), tag("dd", words.shorten(value)))
