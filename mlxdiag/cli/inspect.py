"""`mlxdiag inspect`: the rules over one or several traces, no framework needed."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mlxdiag.cli import options
from mlxdiag.cli.deliver import deliver
from mlxdiag.cli.settings import Settings, settle
from mlxdiag.cli.sources import open_source
from mlxdiag.cli.streams import complain
from mlxdiag.errors import UnreadableError, UsageError
from mlxdiag.inspect.call import Call
from mlxdiag.inspect.findings import Report
from mlxdiag.inspect.inspector import Inspector
from mlxdiag.reports.masks import Keeper

STDIN = "/dev/stdin"


def main(
    traces: Annotated[
        list[str], typer.Argument(metavar="TRACE...", help="Trace files; '-' is standard input.")
    ],
    follow: Annotated[
        bool, typer.Option("--follow", help="Wait for a growing file and show each finding as it comes.")
    ] = False,
    format: options.Format = None,
    output: options.Output = None,
    force: options.Force = False,
    select: options.Select = None,
    ignore: options.Ignore = None,
    fail_on: options.FailOn = None,
    expect: options.Expect = None,
) -> int:
    """Judge traces: which call broke which rule, and what that breaks."""
    settings = settle(
        format=format,
        output=output,
        force=force,
        select=select,
        ignore=ignore,
        fail_on=fail_on,
        expect=expect,
    )
    refuse_overwriting_a_source(traces, settings.output)
    if follow:
        if len(traces) != 1:
            raise UsageError("--follow watches one trace")
        from mlxdiag.cli.follow import follow_trace  # a plain inspect starts sooner without it

        return follow_trace(STDIN if traces[0] == "-" else traces[0], settings)
    reports: list[Report] = []
    failures: list[UnreadableError] = []
    drawn: dict[str | None, Call] = {}
    for trace in traces:
        keeper = Keeper() if settings.format == "text" else None
        report, failure = judge(trace, settings, keeper)
        if keeper is not None and keeper.call is not None and report is not None:
            drawn[report.source] = keeper.call
        if report is not None:
            reports.append(report)
        if failure is not None:
            failures.append(failure)
    return deliver(reports, settings, failures, drawn)


def judge(
    trace: str, settings: Settings, keeper: Keeper | None = None
) -> tuple[Report | None, UnreadableError | None]:
    """The report on one file, and the error that ended it early: what came before the error is judged.

    `keeper` is shown every entry in which something was found.
    """
    name = "<stdin>" if trace == "-" else trace
    inspector = None
    broken = None
    truncated = False
    try:
        with open_source(STDIN if trace == "-" else trace) as stream:
            inspector = Inspector(stream.header, settings.select, settings.ignore, source=name)
            for entry in stream:
                found = inspector.feed(entry)
                if found and keeper is not None:
                    keeper.take(entry, found, inspector.run)
            truncated = stream.truncated
            for warning in stream.warnings:
                complain(f"warning: {warning}")
    except UnreadableError as error:
        broken = error
    if inspector is None:
        return None, broken
    report = inspector.close(truncated=truncated or broken is not None)
    return (None if broken and not report.summary.steps else report), broken


def refuse_overwriting_a_source(traces: list[str], output: Path | None) -> None:
    """Raises UsageError where `--output` names one of the inputs, even under `--force`."""
    for trace in traces:
        if output and output.exists() and Path(trace).exists() and output.samefile(trace):
            raise UsageError(f"{output} is both an input and the output")
