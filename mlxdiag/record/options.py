"""What a recording is asked to hold, as options of the command line and as environment variables.

The variables are the interface for programs that something else starts (a service manager, a container):
`PYTHONPATH` must begin with `STARTUP`, and `MLXDIAG_RECORD` names the trace. All others may be absent.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

STARTUP = Path(__file__).with_name("startup")
"""Holds the `sitecustomize` that Python imports before any program."""

LEVELS = ("shapes", "digest", "visibility")

RECORD, LEVEL, RING, TOKENS = "MLXDIAG_RECORD", "MLXDIAG_LEVEL", "MLXDIAG_RING", "MLXDIAG_TOKENS"
MAIN = "MLXDIAG_MAIN"
"""Set by the first Python process for its children: its own id."""
REPORT = "MLXDIAG_REPORT"
"""A file that every process appends to, so that the launcher can say what came of it."""


class Options(NamedTuple):
    """Of one recording."""

    path: Path
    level: str = "shapes"
    ring: int = 0
    """Steps that each of the two segments holds; 0: one file with everything."""
    tokens: bool = False
    """Record the real ids."""

    def environment(self) -> dict[str, str]:
        """The variables that say the same."""
        found = {RECORD: str(self.path), LEVEL: self.level}
        if self.ring:
            found[RING] = str(self.ring)
        if self.tokens:
            found[TOKENS] = "1"
        return found


def from_environment(environment: Mapping[str, str]) -> Options | None:
    """The options that a process was started with; None where nothing is to be recorded.

    Raises ValueError, naming the variable, for a value that cannot be.
    """
    path = environment.get(RECORD)
    if not path:
        return None
    level = environment.get(LEVEL) or "shapes"
    if level not in LEVELS:
        raise ValueError(f"{LEVEL}={level}: must be one of {', '.join(LEVELS)}")
    ring = environment.get(RING) or "0"
    if not ring.isdecimal():
        raise ValueError(f"{RING}={ring}: must be a count of steps")
    tokens = environment.get(TOKENS, "") not in ("", "0")
    return Options(Path(os.path.abspath(path)), level, int(ring), tokens)
