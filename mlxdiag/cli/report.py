"""`mlxdiag report`: one self-contained page over a trace, a replayed trace, an audit or a bundle."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from mlxdiag.bundle.pack import opening
from mlxdiag.cli import options
from mlxdiag.cli.deliver import write_result
from mlxdiag.cli.inspect import refuse_overwriting_a_source
from mlxdiag.cli.settings import refuse_overwriting
from mlxdiag.cli.streams import complain
from mlxdiag.errors import CLEAN
from mlxdiag.inspect.inspector import Inspector
from mlxdiag.traces.blocks import Blocks
from mlxdiag.traces.reader import open_stream
from mlxdiag.traces.stream import Stream

SNIFFED = 4096
"""Bytes that tell an audit from a trace."""
_SCHEMA = re.compile(rb'"schema"\s*:\s*"([^"]*)"')


def main(
    file: Annotated[
        str,
        typer.Argument(
            metavar="FILE", help="A trace, what 'replay -o' wrote, an audit in JSON, or a bundle."
        ),
    ],
    output: options.Output = None,
    force: options.Force = False,
) -> int:
    """Show FILE as one HTML page that needs nothing else: no network, no server, no other file."""
    target = None if output == Path("-") else output
    refuse_overwriting(target, force)
    refuse_overwriting_a_source([file], target)
    text = _page(file)
    write_result(text, target)
    if target is not None:
        complain(f"{target}: {len(text.encode()) // 1024 + 1} KiB, open it in a browser")
    return CLEAN


def _page(file: str) -> str:
    """Raises UnreadableError."""
    if file == "-":
        data = sys.stdin.buffer.read()
        return _trace("<stdin>", lambda: Stream(Blocks.of_text(data, "<stdin>")))
    if opening.is_bundle(file):
        return _bundle(file)
    if _is_audit(file):
        return _audit(file)
    return _trace(file, lambda: open_stream(file))


def _is_audit(file: str) -> bool:
    """JSON that is no trace; what cannot be opened is left to the trace reader's words."""
    try:
        with open(file, "rb") as opened:
            start = opened.read(SNIFFED).lstrip()
    except (OSError, ValueError):
        return False
    named = _SCHEMA.search(start)  # the first is the file's own: an audit holds traces, with theirs
    return start.startswith(b"{") and not (named and named[1].startswith(b"mlxdiag.trace/"))


def _trace(name: str, opened: Callable[[], Stream], beside: str = "") -> str:
    """Read twice: the calls worth drawing are known once the whole trace was judged."""
    from mlxdiag.reports.html import trace_page

    with opened() as stream:
        inspector = Inspector(stream.header, source=name)
        for entry in stream:
            inspector.feed(entry)
        report = inspector.close(truncated=stream.truncated)
        for warning in stream.warnings:
            complain(f"warning: {warning}")
    with opened() as stream:
        return trace_page.render(stream.header, stream, report, beside)


def _audit(file: str) -> str:
    from mlxdiag.audit.faults.merge import read
    from mlxdiag.reports.html import audit_page

    return audit_page.render(read(Path(file)), file)


def _bundle(file: str) -> str:
    from mlxdiag.reports.html import tried

    members = opening.read(file)
    trace = opening.trace_in(members, file)
    opening.require_sums(members, (tried.CONTROLS,), file)
    return _trace(file, lambda: Stream(Blocks.of_text(trace, file)), tried.part(members, file))
