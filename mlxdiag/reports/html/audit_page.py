"""The page of an audit: the faults, and the matrix of families and scenarios that they come from."""

from __future__ import annotations

from collections.abc import Iterator

from mlxdiag.audit.cell import Audit, Fault
from mlxdiag.reports.audit import shown as words
from mlxdiag.reports.audit.shown import Shown
from mlxdiag.reports.html import matrix
from mlxdiag.reports.html.markup import Html, join, lines, tag
from mlxdiag.reports.html.page import page, section, table
from mlxdiag.reports.view import count

CODE = ("next", "where", "repro")
"""Details that are shown as they would be typed."""


def render(audit: Audit, source: str) -> str:
    """The document. Times are left out, so that equal audits are equal pages."""
    shown = Shown(audit=audit)
    said = words.verdict(shown)
    kind = "error" if audit.faults else "unknown" if words.nothing_judged(audit) else "clean"
    sign = {"error": "✕", "clean": "✓"}.get(kind, "?")
    top = tag(
        "div",
        tag(
            "p", tag("span", sign, class_="sign", aria_hidden="true"), words.subject(audit), class_="verdict"
        ),
        tag("p", said, class_="lead"),
        class_=f"top {kind}",
    )
    body = tag(
        "main",
        tag("p", "mlxdiag audit", class_="kicker"),
        tag("h1", source),
        top,
        tag("p", f"{words.coverage(audit)}. {words.tally(audit)}.", class_="note"),
        *_parts(audit, shown),
        id="main",
    )
    return page(f"{source}: {said}", body, ("matrix.js",))


def _parts(audit: Audit, shown: Shown) -> Iterator[Html]:
    if audit.faults:
        yield section("faults", "Faults", _overview(audit.faults))
    if audit.cells:
        yield section("matrix", "Families and scenarios", matrix.picture(audit))
    if audit.faults:
        yield section("causes", "The faults one by one", join(_fault(f, shown) for f in audit.faults))
    excused = [
        (name, words.few(sorted({cell.family for cell in cells})), cells[0].reason)
        for name, cells in words.excused(audit).items()
    ]
    if excused:
        yield section(
            "excused",
            "Looks wrong, and is not",
            table(("excuse", "families", "why"), excused, "Excuses", class_="prose"),
        )
    skipped = list(words.skipped_families(audit).items())
    if skipped:
        yield section(
            "skipped",
            "Skipped families",
            table(("family", "reason"), skipped, "Families that were not run", class_="prose"),
        )
    if audit.noise:
        rows = [(family, f"{floor:.2g}") for family, floor in sorted(audit.noise.items())]
        noise = table(("family", "noise floor"), rows, "Measured, in standard deviations of the logits")
        yield section("noise", "Noise", tag("details", tag("summary", f"{len(rows)} families"), noise))
    if audit.notes:
        yield section("notes", "Notes", *(tag("p", note) for note in audit.notes))


def _overview(faults: list[Fault]) -> Html:
    rows: list[tuple[Html | str, ...]] = [
        (
            tag("a", fault.id, href=f"#fault-{number}"),
            words.rule(fault.code),
            words.few(fault.families),
            str(len(fault.cells)),
            fault.where,
        )
        for number, fault in enumerate(faults, 1)
    ]
    return table(("fault", "rule", "families", "cells", "where"), rows, "One cause a row")


def _fault(fault: Fault, shown: Shown) -> Html:
    number = shown.audit.faults.index(fault) + 1
    head = tag(
        "h3",
        tag("span", "✕", class_="sign", aria_hidden="true"),
        fault.id,
        tag("span", f"{words.rule(fault.code)}, {count(len(fault.cells), 'cell')}", class_="place"),
        id=f"fault-{number}",
    )
    pairs = list(words.details(fault, shown))
    told = join(
        tag("div", tag("dt", name), tag("dd", tag("code", value) if name in CODE else value))
        for name, value in pairs
    )
    smallest = (
        tag(
            "details",
            tag("summary", "the smallest failing schedule as a trace"),
            tag("pre", lines(fault.smallest), tabindex="0"),
        )
        if fault.smallest
        else ""
    )
    return tag("article", head, tag("dl", told, class_="told"), smallest, class_="finding error")
