"""JUnit XML: a suite per family, a case per scenario."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from mlxdiag.audit.cell import Cell
from mlxdiag.audit.faults.baseline import spell
from mlxdiag.reports.audit import shown as words
from mlxdiag.reports.audit.shown import Shown
from mlxdiag.reports.escape import xml


def render(shown: Shown) -> str:
    """A failure is a wrong cell, an error a crash; what a baseline accepts is skipped with that reason."""
    rows = words.families(shown.audit)
    suites = [_suite(name, cells, shown) for name, cells in rows.items()]
    tests = len(shown.audit.cells)
    kinds = [_kind(cell, shown) for cell in shown.audit.cells]
    head = (
        f'<testsuites name="mlxdiag audit-models" tests="{tests}" '
        f'failures="{kinds.count("failure")}" errors="{kinds.count("error")}">'
    )
    return "\n".join(['<?xml version="1.0" encoding="UTF-8"?>', head, *suites, "</testsuites>"]) + "\n"


def _suite(name: str, cells: Sequence[Cell], shown: Shown) -> str:
    kinds = [_kind(cell, shown) for cell in cells]
    head = (
        f'  <testsuite name="{xml(name)}" tests="{len(cells)}" failures="{kinds.count("failure")}" '
        f'errors="{kinds.count("error")}" skipped="{kinds.count("skipped")}">'
    )
    cases = (_case(cell, kind, shown) for cell, kind in zip(cells, kinds, strict=True))
    return "\n".join([head, *cases, "  </testsuite>"])


def _kind(cell: Cell, shown: Shown) -> str:
    if cell.wrong:
        shown_ids = {fault.id for fault in shown.audit.faults}
        if _accepted(cell, shown) or cell.signature not in shown_ids:
            return "skipped"
        return "error" if cell.result == "crash" else "failure"
    return "" if cell.result == "pass" else "skipped"


def _accepted(cell: Cell, shown: Shown) -> bool:
    found = shown.difference
    if found is None or cell.signature not in found.accepted:
        return False
    return spell(cell.family, cell.scenario) not in found.new_cells.get(cell.signature, ())


def _case(cell: Cell, kind: str, shown: Shown) -> str:
    head = f'    <testcase classname="{xml(cell.family)}" name="{xml(cell.scenario)}"'
    return "".join([head, *_body(cell, kind, shown)])


def _body(cell: Cell, kind: str, shown: Shown) -> Iterator[str]:
    if not kind:
        yield f"><system-out>{xml(cell.reason)}</system-out></testcase>" if cell.excuse else "/>"
        return
    if kind == "skipped":
        yield f'><skipped message="{xml(_why(cell, shown))}"/></testcase>'
        return
    text = "\n".join([cell.signature, cell.where, " ".join(cell.codes), cell.trace])
    head = f'><{kind} type="{xml(cell.signature)}" message="{xml(cell.reason)}">'
    yield f"{head}{xml(text)}</{kind}></testcase>"


def _why(cell: Cell, shown: Shown) -> str:
    if not cell.wrong:
        return f"{cell.result}: {cell.reason}"
    accepted = "accepted by the baseline" if _accepted(cell, shown) else "hidden by --select or --ignore"
    return f"{accepted}: {cell.signature}: {cell.reason}"
