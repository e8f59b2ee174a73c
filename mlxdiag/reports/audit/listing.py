"""What `audit-models --list` shows: the scenarios and the families, without running any."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import Any

from mlxdiag.audit.engine.table import COLUMNS
from mlxdiag.audit.engine.tasks import Described
from mlxdiag.reports.escape import printable


def document(held: Described, scenarios: Sequence[str], families: Sequence[str]) -> dict[str, Any]:
    """As plain data."""
    return {
        "libraries": held.libraries,
        "device": held.device,
        "scenarios": [
            {"name": scenario.name, "group": scenario.group, "title": scenario.title}
            for scenario in COLUMNS
            if scenario.name in scenarios
        ],
        "families": list(families),
        "no_families": held.others,
    }


def text(found: dict[str, Any]) -> str:
    """For people."""
    scenarios = found["scenarios"]
    longest = max((len(scenario["name"]) for scenario in scenarios), default=0)
    lines = [f"scenarios: {len(scenarios)}"]
    group = None
    for scenario in scenarios:
        if scenario["group"] != group:
            group = scenario["group"]
            lines.append(f"  {group}")
        lines.append(f"    {scenario['name']:{longest}}  {scenario['title']}")
    lines.append(f"families: {len(found['families'])}")
    lines += _paragraph(", ".join(found["families"]))
    lines.append(f"modules that are no family: {len(found['no_families'])}")
    for name, reason in found["no_families"].items():
        lines += _paragraph(f"{name}: {reason}")
    return "\n".join(lines) + "\n"


def _paragraph(words: str) -> list[str]:
    return textwrap.wrap(
        printable(words), 110, initial_indent="  ", subsequent_indent="    ", break_on_hyphens=False
    )
