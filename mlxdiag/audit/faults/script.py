"""A fault's standalone script, written and run once in a worker."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from mlxdiag.audit.cell import Fault
from mlxdiag.audit.engine.pool import last_line
from mlxdiag.errors import UnjudgedError

SHOWN = 1
"""What a script ends with that shows its fault."""
PATIENCE = 90.0
"""Seconds that a script may run, at about 2 s each."""
LONGEST = 300
"""Characters of a script's last line that are kept."""


class Script(msgspec.Struct, kw_only=True):
    """What became of a fault's script."""

    name: str = ""
    """Its file; empty where none was written."""
    code: int = 2
    """What it ended with: 1 where it showed the fault."""
    said: str = ""
    """Its last line, or why there is none."""

    @property
    def shown(self) -> bool:
        return bool(self.name) and self.code == SHOWN


def script(given: dict[str, Any], directory: str, seed: int) -> Iterator[Script]:
    """Write the standalone script of a fault (as plain data) and run it, or tell why there is none."""
    from mlxdiag.audit import repro

    try:
        path = repro.write(msgspec.convert(given, Fault), Path(directory), seed=seed)
    except UnjudgedError as error:
        yield Script(said=str(error))
        return
    if path is None:
        yield Script(said="there is no schedule to write it of")
        return
    ran = repro.confirm(path, timeout=PATIENCE)
    yield Script(name=path.name, code=ran.code, said=last_line(ran.output)[:LONGEST] or "nothing")
