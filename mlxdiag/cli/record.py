"""`mlxdiag record`: an unmodified program under the probe."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from mlxdiag.cli.streams import complain, put
from mlxdiag.errors import CLEAN, UsageError
from mlxdiag.record.options import LEVELS, Options


def main(
    program: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="-- PROGRAM ARGS...", help="What to run, as it is: python, a script, a server."
        ),
    ] = None,
    output: Annotated[
        Path, typer.Option("-o", "--output", metavar="FILE", help="The trace; written as the program runs.")
    ] = Path("trace.yaml"),
    level: Annotated[
        str,
        typer.Option(
            "--level",
            metavar="LEVEL",
            help="shapes (reads no array), digest (mask content, lazily) or visibility (slow, exact).",
        ),
    ] = "shapes",
    ring: Annotated[
        int,
        typer.Option("--ring", metavar="N", min=0, help="Keep the last N steps only; 0: keep everything."),
    ] = 0,
    tokens: Annotated[bool, typer.Option("--tokens", help="Record real token ids.")] = False,
    environment: Annotated[
        bool,
        typer.Option(
            "--environment", help="Print the variables that make a program record itself, and stop."
        ),
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing trace.")] = False,
) -> int:
    """Run an unmodified Python program under the probe. The exit code is the program's.

    Child processes write trace.<pid>.yaml beside the trace.
    """
    from mlxdiag.record import launcher

    if level not in LEVELS:
        raise UsageError(f"--level {level}: must be one of {', '.join(LEVELS)}")
    options = Options(Path(os.path.abspath(output)), level, ring, tokens)
    if environment:
        for name, value in launcher.variables(options, os.environ).items():
            put(f"{name}={value}")
        return CLEAN
    if not program:
        raise UsageError("no program to run: mlxdiag record -- python -m mlx_lm generate ...")
    outcome = launcher.run(program, options, force=force)
    for line in outcome.lines:
        complain(line)
    return outcome.exit_code
