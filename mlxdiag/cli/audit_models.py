"""`mlxdiag audit-models`: every family of the installed library through every scheduling path."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from mlxdiag.cli import audit_across, options
from mlxdiag.cli.audit_result import Given, finish
from mlxdiag.cli.settings import Settings, refuse_overwriting, settle
from mlxdiag.cli.streams import complain, put
from mlxdiag.errors import CLEAN, UnjudgedError, UsageError

if TYPE_CHECKING:
    from mlxdiag.audit.cell import Audit
    from mlxdiag.audit.engine.pool import Site
    from mlxdiag.audit.engine.run import Wanted
    from mlxdiag.audit.faults.causes import Causes


def main(
    families: Annotated[
        list[str] | None,
        typer.Argument(metavar="[FAMILY]...", help="Families or patterns, as 'gemma*'; default: all."),
    ] = None,
    library: Annotated[
        str,
        typer.Option("--library", metavar="LIBRARY", help="mlx-lm, transformers, or both with a comma."),
    ] = "mlx-lm",
    scenario: Annotated[
        list[str] | None,
        typer.Option(
            "--scenario",
            metavar="NAMES",
            help="Scenarios or patterns, as 'chunks-*,no-cache'; default: all but tensor-parallel and "
            "pipeline, which take two processes each; '*': these, too.",
        ),
    ] = None,
    device: Annotated[
        str | None,
        typer.Option(
            "--device", metavar="DEVICE", help="metal, cuda, mps or cpu; default: the library's own."
        ),
    ] = None,
    jobs: Annotated[
        int | None,
        typer.Option("--jobs", "-j", metavar="N", min=1, help="Families at work at once; default: cores."),
    ] = None,
    shard: Annotated[
        str | None,
        typer.Option("--shard", metavar="I/N", help="The i-th of n parts; 'mlxdiag merge' joins them."),
    ] = None,
    seed: Annotated[
        int, typer.Option("--seed", min=0, max=2**32 - 1, help="Of weights and prompt tokens.")
    ] = 0,
    baseline: options.Baseline = None,
    write_baseline: options.WriteBaseline = None,
    against: Annotated[
        str | None,
        typer.Option(
            "--against",
            metavar="VERSION_OR_PATH",
            help="Run the same cells on another copy: a release, which is installed into a folder of its "
            "own, a folder that holds the package, or a Python or environment.",
        ),
    ] = None,
    repros: Annotated[
        Path | None,
        typer.Option("--repros", metavar="DIR", help="Write a standalone script for each fault here."),
    ] = None,
    resume: Annotated[
        Path | None,
        typer.Option("--resume", metavar="FILE", help="Keep finished cells here, and skip those it holds."),
    ] = None,
    time_limit: Annotated[
        float, typer.Option("--time-limit", metavar="SECONDS", help="That one cell may take.")
    ] = 60.0,
    across_only: Annotated[
        bool,
        typer.Option(
            "--across-only", help="Of two libraries, run the comparison alone, and not their tables."
        ),
    ] = False,
    show_all: options.ShowAll = False,
    show_list: Annotated[
        bool, typer.Option("--list", help="Show the scenarios and families, and run nothing.")
    ] = False,
    format: options.Format = None,
    output: options.Output = None,
    force: options.Force = False,
    select: options.Select = None,
    ignore: options.Ignore = None,
    fail_on: options.FailOn = None,
    expect: options.Expect = None,
) -> int:
    """Audit an installed library: every model family, every scheduling path, judged by three oracles."""
    settings = settle(
        format=format,
        output=output,
        force=force,
        select=select,
        ignore=ignore,
        fail_on=fail_on,
        expect=expect,
    )
    libraries = parse_libraries(library)
    for name in libraries:
        require_library(name)
    given = Given(
        baseline=baseline, write_baseline=write_baseline, repros=repros, unfold=show_all, settings=settings
    )
    given.check()
    if len(libraries) > 1:
        audit_across.require_possible(libraries, given, resume, against, shard)
    if across_only and len(libraries) < 2:
        raise UsageError("--across-only: give two libraries, as --library mlx-lm,transformers")
    # Of several libraries each has scenarios of its own: names are looked for in all of them together.
    alone = scenario if len(libraries) == 1 else None
    wanted = [
        what_is_wanted(name, families, alone, device, jobs, shard, seed, resume, time_limit, repros)
        for name in libraries
    ]
    if show_list:
        return max(show(one, settings) for one in wanted)
    if resume is not None and not resume.exists():
        refuse_overwriting(resume, force)
    if len(wanted) > 1:
        return audit_across.several(wanted, scenario or (), given, None if across_only else audited)
    return audit(wanted[0], given, against)


def audited(wanted: Wanted) -> Audit:
    """One table of several."""
    from mlxdiag.audit.faults import causes

    complain(f"{wanted.library}:")
    return watched(wanted, causes.load(library=wanted.library))


def audit(wanted: Wanted, given: Given, against: str | None) -> int:
    """Run, compare, and hand the result over; the exit code."""
    from mlxdiag.audit.faults import against as copies
    from mlxdiag.audit.faults import causes

    site = copies.site(against, wanted.library) if against is not None else None
    known = causes.load(library=wanted.library)
    found = watched(wanted, known)
    comparison = None
    if site is not None:
        complain(f"{site.label}: the same cells")
        comparison = copies.compare(elsewhere(wanted, found, site, known), found)
    return finish(found, given, comparison)


def elsewhere(wanted: Wanted, found: Audit, site: Site, known: Causes) -> Audit:
    """The same cells on another copy, as far as it has the families that were asked for here."""
    from mlxdiag.audit.cell import Audit
    from mlxdiag.audit.engine import run as engine
    from mlxdiag.audit.engine.names import fitting

    resume = wanted.resume.with_name(wanted.resume.name + ".against") if wanted.resume else None
    there = msgspec.structs.replace(wanted, site=site, resume=resume, shrink=False, repros=None, shard=None)
    # A shard there would hold other families wherever one of the copies has more.
    asked = tuple(dict.fromkeys(cell.family for cell in found.cells)) if wanted.shard else wanted.families
    if not asked:
        return watched(there, known)
    held = engine.look(there)
    families = fitting(held.families, asked)
    if not families:
        return Audit(libraries=held.libraries, device=held.device, cells=[])
    return watched(msgspec.structs.replace(there, families=families), known)


def watched(wanted: Wanted, known: Causes) -> Audit:
    """One audit, with its progress on standard error. An interrupt says how to go on."""
    from mlxdiag.audit.engine.run import run
    from mlxdiag.cli.audit_progress import shown_progress

    try:
        with shown_progress() as watch:
            return run(wanted, causes=known, watch=watch)
    except KeyboardInterrupt:
        if wanted.resume is not None and wanted.resume.is_file():
            complain(f"finished cells are in {wanted.resume}; the same command goes on from there")
        raise


def show(wanted: Wanted, settings: Settings) -> int:
    """Print scenarios and families as text or JSON."""
    from mlxdiag.audit.engine.names import pick
    from mlxdiag.audit.engine.run import look
    from mlxdiag.reports import json
    from mlxdiag.reports.audit import listing

    if settings.format not in ("text", "json"):
        raise UsageError(f"--list: the list is shown as text or json, not {settings.format}")
    held = look(wanted)
    found = listing.document(held, wanted.scenarios, pick("family", held.families, wanted.families))
    put(json.pretty(found) if settings.format == "json" else listing.text(found))
    return CLEAN


def what_is_wanted(
    library: str,
    families: list[str] | None,
    scenario: list[str] | None,
    device: str | None,
    jobs: int | None,
    shard: str | None,
    seed: int,
    resume: Path | None,
    time_limit: float,
    repros: Path | None,
) -> Wanted:
    """The options as the audit knows them. Raises UsageError for names and numbers that make no sense."""
    from mlxdiag.audit.engine.names import pick
    from mlxdiag.audit.engine.run import Wanted
    from mlxdiag.audit.engine.table import names, usual

    if not 0.1 <= time_limit <= DAY:
        raise UsageError(f"--time-limit: {time_limit} is not between 0.1 and {DAY} seconds")
    return Wanted(
        library=library,
        families=tuple(families or ()),
        scenarios=pick("scenario", names(library), scenario or usual(library)),
        jobs=jobs or cores(),
        shard=parse_shard(shard) if shard is not None else None,
        seed=seed,
        device=device,
        resume=resume,
        limit=time_limit,
        repros=repros,
    )


DAY = 24 * 60 * 60


def parse_shard(text: str) -> tuple[int, int]:
    """`2/4` as (2, 4). Raises UsageError."""
    found = re.fullmatch(r"(\d+)/(\d+)", text.strip())
    if found is None or not 1 <= int(found[1]) <= int(found[2]):
        raise UsageError(f"--shard: {text!r} is not I/N with 1 <= I <= N, as 2/4")
    return int(found[1]), int(found[2])


def cores() -> int:
    """Processor cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def parse_libraries(text: str) -> tuple[str, ...]:
    """`mlx-lm`, `transformers`, or both. Raises UsageError for any other name, and for none."""
    from mlxdiag.audit.libraries.table import NAMES

    names = tuple(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
    for name in names or (text,):
        if name not in NAMES:
            raise UsageError(f"--library: {name!r} is unknown; known: {', '.join(NAMES)}")
    return names


def require_library(library: str) -> None:
    """Raises UnjudgedError where a package that the library needs is not installed."""
    from importlib.util import find_spec

    needed, hint = NEEDS[library]
    for name in needed:
        if find_spec(name) is None:
            raise UnjudgedError(f"{name} is not installed, so nothing can be audited; try: {hint}")


NEEDS = {
    "mlx-lm": (("mlx", "mlx_lm"), "pip install mlx-lm"),
    "transformers": (("torch", "transformers"), 'pip install "mlxdiag[torch]"'),
}
