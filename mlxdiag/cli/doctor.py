"""`mlxdiag doctor`: what is installed, which devices really compute, and what to install."""

from __future__ import annotations

from typing import Annotated

import msgspec
import typer

from mlxdiag.cli import options
from mlxdiag.cli.deliver import write_result
from mlxdiag.cli.settings import one_of, refuse_overwriting
from mlxdiag.cli.streams import complain
from mlxdiag.errors import CLEAN, UNJUDGED
from mlxdiag.models.doctor import examine
from mlxdiag.reports import examination, json

FORMATS = ("text", "json")
SCHEMA = "mlxdiag.doctor/1"


def main(
    format: Annotated[str, typer.Option("--format", metavar="FORMAT", help="text or json.")] = "text",
    output: options.Output = None,
    force: options.Force = False,
) -> int:
    """What is installed, which devices really compute, and what to install; 4 when no backend works."""
    one_of("format", format, FORMATS)
    refuse_overwriting(output, force)
    found = examine()
    if format == "json":
        write_result(json.pretty({"schema": SCHEMA, **msgspec.to_builtins(found)}), output)
    else:
        write_result(examination.text(found), output)
    if any(backend.works for backend in found.backends):
        return CLEAN
    complain("no backend works here: traces can be inspected, but nothing can be replayed")
    return UNJUDGED
