"""Markdown, for the documents and for a job summary: every row, the faults, the excuses, the skipped."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from mlxdiag.audit.cell import Audit, Fault
from mlxdiag.reports.audit import compared, grid
from mlxdiag.reports.audit import shown as words
from mlxdiag.reports.audit.shown import Shown
from mlxdiag.reports.escape import markdown as safe
from mlxdiag.reports.markdown import table
from mlxdiag.reports.view import count


def render(shown: Shown) -> str:
    """The whole document."""
    return "\n".join(_lines(shown)).rstrip() + "\n"


def _lines(shown: Shown) -> Iterator[str]:
    audit = shown.audit
    yield f"# Audit of {safe(words.subject(audit))}\n"
    yield f"{safe(words.verdict(shown))}. {safe(words.coverage(audit))}. {safe(words.tally(audit))}.\n"
    told, accepted = words.parted(shown)
    if shown.difference is not None:
        # What fails the run is not looked for behind what is known.
        yield from (f"- baseline: {safe(line)}" for line in words.baseline_lines(shown))
        yield from _faults(told, shown)
        yield ""
    yield "## Families and scenarios\n"
    yield from _table(audit)
    if shown.difference is None:
        yield from _faults(told, shown)
    yield from _accepted(accepted, shown)
    if shown.comparison is not None:
        yield "\n## Compared\n"
        yield from (f"- {safe(line)}" for line in compared.lines(shown.comparison))
    yield from _excused(audit)
    yield from _skipped(audit)
    for note in audit.notes:
        yield f"\nNote: {safe(note)}"


def _table(audit: Audit) -> Iterator[str]:
    names = words.columns(audit)
    yield "; ".join(f"`{sign}` {safe(meaning)}" for sign, meaning in words.LEGEND) + ".\n"
    titles = [[str(number), name, grid.TITLES.get(name, "")] for number, name in enumerate(names, 1)]
    yield from table(["column", "scenario", "what it does"], titles)
    yield ""
    cells = {(cell.family, cell.scenario): cell for cell in audit.cells}
    header = ["family", *(str(number) for number in range(1, len(names) + 1))]
    yield f"| {' | '.join(header)} |"
    yield f"|{'---|' * len(header)}"
    for family in words.families(audit):
        signs = (f"`{sign}`" if (sign := words.symbol(cells.get((family, name)))) else "" for name in names)
        yield f"| {safe(family)} | {' | '.join(signs)} |"


def _overview(faults: Sequence[Fault]) -> Iterator[str]:
    rows = [
        [fault.id, words.rule(fault.code), words.few(fault.families), str(len(fault.cells)), fault.where]
        for fault in faults
    ]
    yield from table(["fault", "rule", "families", "cells", "where"], rows)


def _faults(faults: Sequence[Fault], shown: Shown) -> Iterator[str]:
    if faults:
        yield "\n## Faults\n"
        yield from _overview(faults)
    for fault in faults:
        yield from _fault(fault, shown)


def _accepted(faults: Sequence[Fault], shown: Shown) -> Iterator[str]:
    """A line each, or in full where all is asked for."""
    if faults:
        yield "\n## Accepted by the baseline\n"
    for fault in faults:
        if shown.unfold:
            yield from _fault(fault, shown)
        else:
            yield f"- {safe(words.accepted_line(fault))}"


def _fault(fault: Fault, shown: Shown) -> Iterator[str]:
    state = words.state(fault, shown)
    yield f"\n### {safe(fault.id)}{f' ({state})' if state else ''}\n"
    yield f"{safe(words.rule(fault.code))}, {count(len(fault.cells), 'cell')}.\n"
    for label, value in words.details(fault, shown):
        yield f"- {label}: {f'`{value}`' if label == 'next' and '`' not in value else safe(value)}"
    if fault.smallest:
        yield f"\n```yaml\n{fault.smallest.rstrip()}\n```"


def _excused(audit: Audit) -> Iterator[str]:
    held = words.excused(audit)
    if held:
        yield "\n## Looks wrong, and is not\n"
    for name, cells in held.items():
        families = words.few(sorted({cell.family for cell in cells}))
        scenarios = words.few(sorted({cell.scenario for cell in cells}))
        yield f"- {safe(name)} ({safe(families)}; {safe(scenarios)}): {safe(cells[0].reason)}"


def _skipped(audit: Audit) -> Iterator[str]:
    skipped = words.skipped_families(audit)
    if skipped:
        yield "\n## Skipped families\n"
    for name, reason in skipped.items():
        yield f"- {safe(name)}: {safe(reason)}"
    refused: dict[str, list[str]] = {}
    for cell in audit.cells:
        if cell.result == "unsupported":
            refused.setdefault(cell.reason, []).append(f"{cell.family}/{cell.scenario}")
    if refused:
        yield "\n## Refused by the library\n"
    for reason, cells in sorted(refused.items()):
        yield f"- {safe(reason)}: {safe(words.few(cells))}"
    reasons: dict[tuple[str, str], list[str]] = {}
    for cell in audit.cells:
        if cell.result == "skipped" and cell.family not in skipped:
            reasons.setdefault((cell.scenario, cell.reason), []).append(cell.family)
    if reasons:
        yield "\n## Skipped cells\n"
    for (scenario, reason), families in reasons.items():
        yield f"- {safe(scenario)}: {safe(reason)}: {safe(words.few(families))}"
