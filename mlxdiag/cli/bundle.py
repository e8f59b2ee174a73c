"""`mlxdiag bundle`: the bug report, as one zip that anybody may see."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mlxdiag.cli import options
from mlxdiag.cli.deliver import write_bytes
from mlxdiag.cli.inspect import refuse_overwriting_a_source
from mlxdiag.cli.settings import one_of, refuse_overwriting
from mlxdiag.cli.streams import complain, put
from mlxdiag.errors import CLEAN, FINDINGS, UsageError
from mlxdiag.reports import view as words

if TYPE_CHECKING:
    from mlxdiag.bundle.assemble import Made

MOST_HITS = 12
"""Places that are named where the detector refuses a bundle."""


def main(
    trace: Annotated[Path, typer.Argument(metavar="TRACE", help="The trace that shows the fault.")],
    output: Annotated[Path, typer.Option("-o", "--output", metavar="FILE", help="The zip to write.")] = Path(
        "bundle.zip"
    ),
    log: Annotated[
        list[Path] | None,
        typer.Option("--log", metavar="FILE", help="A log to put in, cleaned; may be given again."),
    ] = None,
    model: Annotated[
        Path | None,
        typer.Option("--model", metavar="DIR", help="The checkpoint: its config and hashes of its weights."),
    ] = None,
    project: Annotated[
        str | None,
        typer.Option(
            "--for",
            metavar="PROJECT",
            help="Lay the summary out as this project asks: mlx-lm, mlx, mlxcel, mlx-vlm, vllm, transformers "
            "or llama.cpp.",
        ),
    ] = None,
    with_tokens: Annotated[
        bool, typer.Option("--with-tokens", help="Put recorded token ids in as they are. They are text.")
    ] = False,
    keep: Annotated[
        list[str] | None,
        typer.Option("--keep", metavar="WORD", help="Let this word stay, as a model's public name."),
    ] = None,
    replay: Annotated[
        bool, typer.Option(help="Run the schedule to shrink it, to write repro/ and to try controls.")
    ] = True,
    drop_refused: Annotated[
        bool, typer.Option("--drop-refused", help="Leave out log lines that the last check refuses.")
    ] = False,
    preview: Annotated[
        bool, typer.Option("--preview", help="Show the summary and what was taken out; write nothing.")
    ] = False,
    force: options.Force = False,
) -> int:
    """Pack the evidence so that a maintainer can see the fault without the prompt, the model or the paths.

    Nothing private goes in unless it is asked for by name, the finished zip is searched again, and nothing is
    ever sent anywhere.
    """
    from mlxdiag.bundle.assemble import Order, make
    from mlxdiag.bundle.collect.projects import GENERIC, PROJECTS
    from mlxdiag.bundle.detect.detector import MAY_STAY

    target = GENERIC if project is None else PROJECTS[one_of("for", project, tuple(PROJECTS))]
    logs = log or []
    if not preview:
        refuse_overwriting(output, force)
        refuse_overwriting_a_source([str(path) for path in (trace, *logs)], output)
    if model is not None and not model.is_dir():
        raise UsageError(f"--model: {model} is not a folder")
    for word in keep or []:
        if not MAY_STAY.match(word):
            raise UsageError(f"--keep: {word!r} is not one word of 3 to 80 letters, digits and ._/+-")
    order = Order(
        trace=trace,
        project=target,
        logs=tuple(logs),
        model=model,
        with_tokens=with_tokens,
        keep=tuple(keep or ()),
        replay=replay,
        drop=drop_refused,
    )
    made = make(order, complain if sys.stderr.isatty() else lambda _: None)
    for warning in made.warnings:
        complain(f"warning: {warning}")
    if preview:
        put(made.members["summary.md"].decode())
    _tell(made)
    if made.hits:
        return _refused(made, output, preview)
    if not preview:
        write_bytes(output, made.data)
        complain(
            f"{output}: {len(made.members) + 1} members, {len(made.data)} bytes; nothing was sent anywhere"
        )
        complain(f"look into it before you attach it: {_next(output)}")
    return CLEAN


def _tell(made: Made) -> None:
    """What is in it, what is missing and why, and what was taken out."""
    for part in made.account.parts:
        if not part.there:
            complain(f"missing: {part.name}: {part.reason}")
    for note in made.account.notes:
        complain(f"note: {note}")
    if not made.report.findings and made.account.headline is None:
        complain(f"note: it names no fault: {words.verdict(made.report)}")
    for one in made.account.removed:
        complain(f"taken out: {one.count} x {one.rule} ({one.what})")


def _refused(made: Made, output: Path, preview: bool) -> int:
    for hit in made.hits[:MOST_HITS]:
        complain(f"error: left in {hit}")
    if len(made.hits) > MOST_HITS:
        complain(f"error: and {len(made.hits) - MOST_HITS} more")
    if any(hit.member.startswith("logs/") for hit in made.hits):
        complain(
            "--drop-refused leaves such lines of a log out; a word that may stay can be given with --keep"
        )
    if not preview:
        complain(f"{output} was not written: something private may be left in it")
    return FINDINGS


def _next(output: Path) -> str:
    name = str(output)
    return f"mlxdiag verify {name}; unzip -p {name} summary.md"
