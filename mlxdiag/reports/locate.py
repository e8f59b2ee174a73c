"""Finds the line of a trace file on which a step stands, for the formats that point at lines."""

from __future__ import annotations

import re
from collections.abc import Set
from pathlib import Path

STEP = re.compile(rb"""^\s*-?\s*[{]?.*?["']?\bstep["']?\s*:\s*(\d+)""")


def lines_of_steps(path: Path, steps: Set[int]) -> dict[int, int]:
    """The first line, from 1, of each of `steps`; steps that are not found (a packed file) are left out."""
    found: dict[int, int] = {}
    if not steps or not path.is_file():
        return found
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            match = STEP.match(line)
            if match and (step := int(match[1])) in steps:
                found.setdefault(step, number)
                if len(found) == len(steps):
                    break
    return found
