"""`mlxdiag verify`: whether a bundle is whole, and holds nothing that it must not hold."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from mlxdiag.cli import options
from mlxdiag.cli.deliver import write_result
from mlxdiag.cli.settings import one_of, refuse_overwriting
from mlxdiag.errors import CLEAN, FINDINGS
from mlxdiag.reports import json
from mlxdiag.reports.escape import log_line, printable
from mlxdiag.reports.view import count

if TYPE_CHECKING:
    from mlxdiag.bundle.pack.check import Problem

FORMATS = ("text", "json")
SCHEMA = "mlxdiag.verify/1"


def main(
    bundle: Annotated[Path, typer.Argument(metavar="BUNDLE", help="A bundle, from anybody.")],
    format: Annotated[str, typer.Option("--format", metavar="FORMAT", help="text or json.")] = "text",
    output: options.Output = None,
    force: options.Force = False,
) -> int:
    """Check a bundle's checksums and schemas, and search it for what no bundle may hold; 1 where it fails.

    It is read in memory only; what climbs out of its folder, links, or unpacks to too much is refused with 3.
    """
    from mlxdiag.bundle.detect import facts
    from mlxdiag.bundle.pack import check, opening
    from mlxdiag.bundle.pack.beside import beside

    one_of("format", format, FORMATS)
    refuse_overwriting(output, force)
    members = opening.read(bundle)
    found = check.problems(members, facts.of_this_machine(), beside(bundle))
    if format == "json":
        write_result(json.pretty(_document(bundle, members, found)), output)
    else:
        write_result("\n".join(_text(bundle, members, found, check.asked_for(members))), output)
    return FINDINGS if found else CLEAN


def _text(bundle: Path, members: dict[str, bytes], found: list[Problem], asked: list[str]) -> list[str]:
    size = sum(len(data) for data in members.values())
    lines = [f"{bundle}: {count(len(members), 'member')}, {size} bytes unpacked"]
    lines += [f"  {one.kind}: {one.text}" for one in found]
    lines += [f"  asked for by its reporter, and not looked at: {one}" for one in asked]
    if not found:
        lines.append("  whole: checksums and schemas fit, and nothing private was found in it")
        lines.append(f"  next: mlxdiag inspect {bundle}; mlxdiag replay {bundle}")
    return [log_line(printable(line)) for line in lines]


def _document(bundle: Path, members: dict[str, bytes], found: list[Problem]) -> dict[str, Any]:
    return {
        "schema": SCHEMA,
        "bundle": str(bundle),
        "whole": not found,
        "problems": msgspec.to_builtins(found),
        "members": {name: len(data) for name, data in sorted(members.items())},
    }
