"""`mlxdiag replay`: the same schedule through real model code, one row per misfit policy."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mlxdiag.cli import options, verdict
from mlxdiag.cli.deliver import deliver
from mlxdiag.cli.inspect import refuse_overwriting_a_source
from mlxdiag.cli.settings import settle
from mlxdiag.cli.streams import complain, put
from mlxdiag.errors import CLEAN, MlxdiagError, UnjudgedError, UnreadableError, UsageError

if TYPE_CHECKING:
    from mlxdiag.inspect.call import Call
    from mlxdiag.replay.experiment import Prepared
    from mlxdiag.traces.types import Trace


def main(
    trace: Annotated[str, typer.Argument(metavar="TRACE", help="The trace whose schedule is run again.")],
    misfit: Annotated[
        str | None,
        typer.Option(
            "--misfit",
            metavar="POLICIES",
            help="What the consumer does with a mask that does not fit: strict, raise, discard:windowed, "
            "discard:causal, discard:sliced, discard:none, crop:old, crop:new, rebuild; several to compare. "
            "Default: what the trace records, else strict.",
        ),
    ] = None,
    backend: Annotated[
        str | None,
        typer.Option(
            "--backend",
            metavar="LIBRARY",
            help="mlx (mlx-lm), torch (transformers), or both with a comma to compare them; default: the one "
            "that the trace was recorded from, else mlx.",
        ),
    ] = None,
    device: Annotated[
        str | None,
        typer.Option("--device", metavar="DEVICE", help="metal, cuda, mps or cpu; default: the library's."),
    ] = None,
    model: Annotated[
        Path | None,
        typer.Option("--model", metavar="DIR", help="A checkpoint to run in place of a tiny random model."),
    ] = None,
    level: Annotated[
        str, typer.Option("--level", metavar="LEVEL", help="visibility (masks are read) or shapes.")
    ] = "visibility",
    parity: Annotated[bool, typer.Option(help="Compare logits with the single pass.")] = True,
    seed: Annotated[
        int, typer.Option("--seed", min=0, max=2**32 - 1, help="Of weights and prompt tokens.")
    ] = 0,
    plan: Annotated[
        bool, typer.Option("--plan", help="Print what would run and the memory it needs.")
    ] = False,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="FILE", help="Write the replayed trace here.")
    ] = None,
    force: options.Force = False,
    format: options.Format = None,
    select: options.Select = None,
    ignore: options.Ignore = None,
    fail_on: options.FailOn = None,
    expect: options.Expect = None,
) -> int:
    """Run a trace's schedule through real model code and compare it with a single pass of the same tokens."""
    from mlxdiag.models import backends
    from mlxdiag.models.configs.directory import read_config, require_geometry
    from mlxdiag.replay import experiment, memory
    from mlxdiag.replay import misfit as policies
    from mlxdiag.replay.show import replay_report
    from mlxdiag.reports.masks import of_trace

    settings = settle(
        format=format,
        output=None,
        force=force,
        select=select,
        ignore=ignore,
        fail_on=fail_on,
        expect=expect,
    )
    refuse_overwriting_a_source([trace], output)
    if output is not None and output.exists() and not force:
        raise UsageError(f"{output} exists; --force overwrites it")
    if output is not None and not output.absolute().parent.is_dir():
        raise UsageError(f"{output}: there is no folder {output.parent}")
    if level not in ("visibility", "shapes"):
        raise UsageError(f"--level: {level!r} is unknown; known: visibility, shapes")
    chosen = policies.parse(misfit) if misfit is not None else ()
    asked = backends.parse(backend) if backend is not None else ()
    recorded, broken = read_what_is_whole(trace)
    asked = asked or (backends.of(recorded.header.environment),)
    for name in asked:
        backends.require(name)
    # Of two libraries, the plan is laid for transformers, whose config defines what is meant.
    chosen_backend = asked[-1] if len(asked) == 1 else "torch"
    config = read_config(model) if model is not None else None
    if model is not None and config is not None:
        require_geometry(model, config)
    for name in () if plan else asked:
        experiment.require_family(recorded, config, name, trace)
    prepared = experiment.prepare(recorded, source=trace, config=config, backend=chosen_backend)
    broken = prepared.broken or broken
    for note in prepared.plan.notes:
        complain(f"note: {note}")
    chosen = chosen or (
        policies.FALLBACKS if prepared.plan.undecided else policies.parse(prepared.plan.misfit)
    )
    if prepared.plan.undecided and misfit is None:
        complain(
            "note: masks were dropped and the trace does not say for what; the usual fallbacks are compared"
        )
    if plan:
        code = show_plan(prepared, chosen, settings.format)
        if broken is not None:
            complain(f"error: {broken}")
        return broken.exit_code if broken is not None else code
    memory.require(prepared)
    if device is not None:
        for name in asked:
            backends.use_device(name, device)
    if len(asked) > 1:
        from mlxdiag.cli import replay_across

        given = replay_across.Given(
            policies=chosen,
            level=level,
            parity=parity,
            seed=seed,
            model=model,
            device=device,
            output=output,
            force=force,
        )
        return replay_across.replay_both(prepared, given, settings, broken)
    instance = experiment.instance_for(prepared, seed=seed, model_dir=model, device=device)
    if sys.stderr.isatty():
        complain(f"running {len(prepared.plan.forwards)} forwards and the single pass on {instance.name} ...")
    ran = experiment.run_policies(prepared, instance, chosen, level=level, parity=parity, seed=seed)
    report = replay_report(ran, prepared, instance, settings.select, settings.ignore)
    unjudged: list[MlxdiagError] = [broken] if broken else []
    if output is not None:
        from mlxdiag.traces.writer import dump

        try:
            dump(ran[0].trace, output, force=force)
            complain(f"{output}: the replayed trace ({chosen[0]})")
        except MlxdiagError as error:
            unjudged.append(error)  # the verdict is not lost with it
    if report.summary.caveat and verdict.exit_code([report], settings) == CLEAN:
        unjudged.append(UnjudgedError(f"{trace}: {report.summary.caveat}"))
    drawn: dict[str | None, Call] = {}
    call = of_trace(ran[0].trace, report.findings) if settings.format == "text" else None
    if call is not None:
        drawn[report.source] = call
    return deliver([report], settings, unjudged, drawn)


def show_plan(prepared: Prepared, policies: tuple[str, ...], format: str) -> int:
    """Print the plan; raises UsageError for a format that a plan does not have."""
    from mlxdiag.replay.show import plan_json, plan_text

    shown = {"text": plan_text, "json": plan_json}
    if format not in shown:
        raise UsageError(f"--plan: a plan is shown as text or json, not {format}")
    put(shown[format](prepared, policies))
    return CLEAN


def read_what_is_whole(path: str) -> tuple[Trace, UnreadableError | None]:
    """The trace up to its first unreadable entry, and that entry's error.

    Raises:
        UnreadableError: nothing could be read.
    """
    from mlxdiag.cli.sources import open_source
    from mlxdiag.traces.types import Trace

    entries: list[Any] = []
    with open_source(path) as stream:
        broken = None
        try:
            entries.extend(iter(stream))
        except UnreadableError as error:
            broken = error
        for warning in stream.warnings:
            complain(f"warning: {warning}")
        if broken is not None and not entries:
            raise broken
        return Trace(stream.header, entries, tuple(stream.warnings), stream.truncated), broken
