"""`mlxdiag diff`: the first step and field where two traces part."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
import typer

from mlxdiag.cli import options
from mlxdiag.cli.deliver import write_result
from mlxdiag.cli.inspect import refuse_overwriting_a_source
from mlxdiag.cli.settings import one_of, refuse_overwriting
from mlxdiag.errors import CLEAN, FINDINGS, UnjudgedError
from mlxdiag.reports import json
from mlxdiag.reports.escape import log_line, printable
from mlxdiag.reports.view import shorten
from mlxdiag.traces.diff import Difference, first_difference
from mlxdiag.traces.reader import open_stream
from mlxdiag.traces.stream import Stream

FORMATS = ("text", "json")
SCHEMA = "mlxdiag.diff/1"


def main(
    left: Annotated[str, typer.Argument(metavar="A", help="A trace.")],
    right: Annotated[str, typer.Argument(metavar="B", help="The trace to compare it with.")],
    common: Annotated[
        bool, typer.Option("--common", help="Compare only what both observed, as of traces of unlike levels.")
    ] = False,
    format: Annotated[str, typer.Option("--format", metavar="FORMAT", help="text or json.")] = "text",
    output: options.Output = None,
    force: options.Force = False,
) -> int:
    """The first step and field where two traces part (and of their headers); exit code 1 when they do."""
    one_of("format", format, FORMATS)
    refuse_overwriting(output, force)
    refuse_overwriting_a_source([left, right], output)
    with open_stream(left) as a, open_stream(right) as b:
        found = _differences(a, b, common)
    if not found and _is_empty(left):
        raise UnjudgedError(f"{left} and {right} hold no entry: nothing was compared")
    write_result(_json(left, right, found) if format == "json" else _text(left, right, found), output)
    return FINDINGS if found else CLEAN


def _differences(left: Stream, right: Stream, common: bool) -> list[Difference]:
    """The first of the headers, if they differ, and the first of the entries."""
    found = first_difference(left, right, common=common)
    if found is None or found.index is not None:
        return [found] if found else []
    head = left.header
    right.header = msgspec.structs.replace(right.header, scheduler=head.scheduler, model=head.model)
    later = first_difference(left, right, common=common)
    return [found, later] if later else [found]


def _is_empty(path: str) -> bool:
    with open_stream(path) as stream:
        return next(iter(stream), None) is None


def _text(left: str, right: str, found: list[Difference]) -> str:
    if not found:
        return f"{left} and {right} tell the same"
    lines = []
    for one in found:
        lines.append(f"{left} and {right} part at {_place(one)}")
        lines.append(f"  {left}: {_shown(one.left)}")
        lines.append(f"  {right}: {_shown(one.right)}")
    return "\n".join(log_line(printable(line)) for line in lines)


def _place(found: Difference) -> str:
    if found.index is None:
        return found.field
    where = f"step {found.step}" if found.step is not None else f"entry {found.index + 1}"
    return f"{where}, {found.field}" if found.field else where


def _shown(value: Any) -> str:
    if value is msgspec.UNSET:
        return "not there"
    return shorten(msgspec.to_builtins(value))


def _json(left: str, right: str, found: list[Difference]) -> str:
    """A difference lacks `left` or `right` where that side lacks the field; index null is the header."""
    parted = []
    for one in found:
        fields = {name: getattr(one, name) for name in one.__struct_fields__}
        parted.append({name: value for name, value in fields.items() if value is not msgspec.UNSET})
    return json.pretty({"schema": SCHEMA, "left": left, "right": right, "differences": parted})
