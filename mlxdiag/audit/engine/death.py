"""What is said of a worker that did not finish its cell: killed from inside, too slow, or let down by us."""

from __future__ import annotations

import re

from mlxdiag.audit.cell import Cell
from mlxdiag.audit.engine.messages import Ended
from mlxdiag.audit.engine.pool import ending, last_line, signal_name

_FRAME = re.compile(r'File "[^"]*?((?:mlx_lm|mlx_vlm|transformers)/[^"]+)", line (\d+) in')
_DUMP = re.compile(
    r'^(Fatal Python error: .*|(Current t|T)hread 0x\w+.*|\s+File ".*|  \.\.\.|\s+Garbage-collecting'
    r"|\s*<(no Python frame|tstate is freed)>"
    r"|Extension modules: .*|Current thread's C stack trace.*|\s+Binary file .*|\s*)$"
)
UNFINISHED = "not judged: mlxdiag failed on it"
"""How the reason of a cell begins that our own fault left without a verdict."""


def crashed(library: str, family: str, scenario: str, event: Ended, limit: float) -> Cell:
    """The process died: the signal, what it wrote last, and the innermost line of the library. Or it was
    ended inside a call, as `os._exit` does."""
    died = ending(event.code if event.abrupt else -event.signal)
    said = "" if event.late else message(event.stderr)
    reason = (
        f"no answer within {limit:g} s, so the process was killed"
        if event.late
        else f"the process {died}" + (f": {said}" if said else "")
    )
    return Cell(
        library=library,
        family=family,
        scenario=scenario,
        result="crash",
        codes=["MD902"],
        reason=reason,
        where=where(event.stderr),
        evidence={} if event.late or event.abrupt else {"signal": signal_name(event.signal)},
    )


def failed(library: str, family: str, scenario: str, event: Ended) -> Cell:
    """An exception of our own code, or a verdict that never came: no statement about the library."""
    said = last_line(event.stderr) if event.code else "no cell came for it"
    return Cell(
        library=library, family=family, scenario=scenario, result="skipped", reason=f"{UNFINISHED}: {said}"
    )


def message(stderr: str) -> str:
    """The last line that is not part of faulthandler's dump, as the C++ runtime's account of an exception."""
    lines = [line for line in stderr.splitlines() if not _DUMP.match(line)]
    return last_line("\n".join(lines))


def where(stderr: str) -> str:
    """File and line of the library at which the process died, from the dump of its stack; empty if none."""
    found = _FRAME.search(stderr)
    return f"{found[1]}:{found[2]}" if found else ""
