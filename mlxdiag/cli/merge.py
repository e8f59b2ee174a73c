"""`mlxdiag merge`: the shards of one audit as the whole."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mlxdiag.cli import options
from mlxdiag.cli.audit_result import Given, finish
from mlxdiag.cli.inspect import refuse_overwriting_a_source
from mlxdiag.cli.settings import settle


def main(
    shards: Annotated[
        list[Path],
        typer.Argument(metavar="SHARD...", help="What 'audit-models --shard --format json' wrote."),
    ],
    baseline: options.Baseline = None,
    write_baseline: options.WriteBaseline = None,
    show_all: options.ShowAll = False,
    format: options.Format = None,
    output: options.Output = None,
    force: options.Force = False,
    select: options.Select = None,
    ignore: options.Ignore = None,
    fail_on: options.FailOn = None,
    expect: options.Expect = None,
) -> int:
    """Join the shards of one audit; a missing or a double shard is an error."""
    settings = settle(
        format=format or form_of(output),
        output=output,
        force=force,
        select=select,
        ignore=ignore,
        fail_on=fail_on,
        expect=expect,
    )
    refuse_overwriting_a_source([str(shard) for shard in shards], settings.output)
    given = Given(baseline=baseline, write_baseline=write_baseline, unfold=show_all, settings=settings)
    given.check()
    from mlxdiag.audit.faults.merge import merge, read

    return finish(merge([(str(shard), read(shard)) for shard in shards]), given)


def form_of(output: Path | None) -> str | None:
    """`-o audit.json` alone means JSON, as the shards are."""
    return "json" if output is not None and output.suffix == ".json" else None
