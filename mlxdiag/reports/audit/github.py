"""Workflow commands of GitHub Actions: one annotation a fault, on the line of the library that causes it."""

from __future__ import annotations

from collections.abc import Iterator

from mlxdiag.audit.cell import Fault
from mlxdiag.reports.audit import shown as words
from mlxdiag.reports.audit.shown import Shown
from mlxdiag.reports.escape import command_data, command_property
from mlxdiag.reports.view import count


def render(shown: Shown) -> str:
    """Annotations only, and nothing for a clean audit. What a baseline accepts is one notice, at the end."""
    return "".join(line + "\n" for line in _lines(shown))


def _lines(shown: Shown) -> Iterator[str]:
    told, accepted = words.parted(shown)
    for fault in told:
        yield annotation(fault, shown)
    if shown.difference is not None:
        for line in shown.difference.lines(without={fault.id for fault in told}):
            yield f"::error title=audit baseline::{command_data(line)}"
    if accepted:
        names = words.few([fault.id for fault in accepted])
        text = f"{count(len(accepted), 'fault')} accepted by the baseline: {names}"
        yield f"::notice title=audit baseline::{command_data(text)}"


def annotation(fault: Fault, shown: Shown) -> str:
    """`::error file=mlx_lm/models/gemma2.py,line=176,title=MD108 window-not-enforced::gemma2: ...`."""
    file, _, line = fault.where.rpartition(":")
    properties = {"file": file, "line": line} if file and line.isdigit() else {}
    properties["title"] = f"{words.rule(fault.code)} ({fault.id})"
    told = ",".join(f"{key}={command_property(value)}" for key, value in properties.items())
    lines = [f"{label}: {value}" for label, value in words.details(fault, shown)]
    return f"::error {told}::{command_data(chr(10).join(lines))}"
