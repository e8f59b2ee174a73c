"""The options that several verbs share, each written once. `settings.settle` makes one value of them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Format = Annotated[
    str | None,
    typer.Option("--format", metavar="FORMAT", help="text, json, sarif, github, junit or markdown."),
]
Output = Annotated[
    Path | None,
    typer.Option("-o", "--output", metavar="FILE", help="Write the result here, once there is one."),
]
Force = Annotated[bool, typer.Option("--force", help="Let --output overwrite a file.")]
Select = Annotated[
    list[str] | None,
    typer.Option("--select", metavar="CODES", help="Only these codes or prefixes, as MD1,MD203."),
]
Ignore = Annotated[
    list[str] | None,
    typer.Option("--ignore", metavar="CODES", help="Not these codes or prefixes."),
]
FailOn = Annotated[
    str | None,
    typer.Option("--fail-on", metavar="SEVERITY", help="error (default) or warning: what makes exit code 1."),
]
Expect = Annotated[
    str | None,
    typer.Option(
        "--expect",
        metavar="CODES",
        help="Exit 0 exactly when these codes fire: warnings and errors, and any info named here. "
        "'none' expects a clean trace.",
    ),
]
Baseline = Annotated[
    Path | None,
    typer.Option(
        "--baseline",
        metavar="FILE",
        help="Accept the faults listed here; fail on new ones, and on those that no longer fail.",
    ),
]
WriteBaseline = Annotated[
    Path | None,
    typer.Option("--write-baseline", metavar="FILE", help="List everything found here, as a baseline."),
]
ShowAll = Annotated[
    bool,
    typer.Option(
        "--all", help="Show the rows of families without a wrong cell, and accepted faults in full, too."
    ),
]
