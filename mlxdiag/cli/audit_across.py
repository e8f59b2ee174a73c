"""`mlxdiag audit-models --library mlx-lm,transformers`: both tables, and what the two make of the same
weights."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from mlxdiag.cli.audit_result import Given, as_shown, exit_code, selected_code, summarise
from mlxdiag.cli.deliver import write_result
from mlxdiag.cli.settings import Settings
from mlxdiag.cli.streams import complain
from mlxdiag.errors import CLEAN, FINDINGS, UNJUDGED, UsageError

if TYPE_CHECKING:
    from mlxdiag.audit.across.cell import Across
    from mlxdiag.audit.across.sweep import Progress
    from mlxdiag.audit.across.sweep import Wanted as WantedAcross
    from mlxdiag.audit.cell import Audit
    from mlxdiag.audit.engine.run import Wanted
    from mlxdiag.reports.audit.shown import Shown

FORMATS = ("text", "markdown", "github", "json")
PARTS = 10
SCHEMA = "mlxdiag.audits/1"


def require_possible(
    libraries: Sequence[str], given: Given, resume: Path | None, against: str | None, shard: str | None
) -> None:
    """Raises UsageError for what makes sense of one library only."""
    for option, value in (
        ("--resume", resume),
        ("--against", against),
        ("--shard", shard),
        ("--baseline", given.baseline),
        ("--write-baseline", given.write_baseline),
        ("--expect", given.settings.expect),
    ):
        if value is not None:
            raise UsageError(f"{option}: is for one library at a time, not for {' and '.join(libraries)}")
    if given.settings.format not in FORMATS:
        raise UsageError(f"--format {given.settings.format}: give one library at a time")


def several(
    wanted: Sequence[Wanted],
    asked: Sequence[str],
    given: Given,
    audited: Callable[[Wanted], Audit] | None,
) -> int:
    """The table of each library, then the comparison; the exit code.

    Each is given those of the named families and scenarios that it knows; `asked`: the scenarios, as they
    were named. `audited`: makes a table; None for the comparison alone. Raises UsageError for a name that
    none of them knows.
    """
    from mlxdiag.audit.engine.names import fitting, pick
    from mlxdiag.audit.engine.run import look

    across = _across(wanted[0], asked)
    tables = wanted if audited is not None else ()
    known = {one.library: look(one).families for one in tables if one.families}
    both = _families(wanted[0]) if wanted[0].families else ()
    if wanted[0].families:
        pick("family", [*both, *(name for held in known.values() for name in held)], wanted[0].families)
    audits = []
    for one in tables:
        chosen = fitting(known[one.library], one.families) if one.families else ()
        scenarios = scenarios_of(one.library, asked)
        if audited is not None and scenarios and (chosen or not one.families):
            audits.append(audited(msgspec.structs.replace(one, families=tuple(chosen), scenarios=scenarios)))
    compared = None
    families = tuple(fitting(both, wanted[0].families)) if wanted[0].families else ()
    if across is not None and (families or not wanted[0].families):
        compared = _compared(msgspec.structs.replace(across, families=families))
    return finish(audits, compared, given)


def scenarios_of(library: str, asked: Sequence[str]) -> tuple[str, ...]:
    """Those of the named scenarios that a library has; all that usually run where none is named.

    Raises UsageError for a name that neither library nor the comparison knows.
    """
    from mlxdiag.audit.across.cell import SAVED
    from mlxdiag.audit.engine.names import fitting, pick
    from mlxdiag.audit.engine.table import COLUMNS, names, usual

    if not asked:
        return usual(library)
    pick("scenario", [*(scenario.name for scenario in COLUMNS), SAVED.name], asked)
    some = fitting(names(library), asked)
    return pick("scenario", names(library), some) if some else ()


def finish(audits: Sequence[Audit], across: Across | None, given: Given) -> int:
    """Write and print everything; the exit code. Raises UsageError where there is nothing."""
    from mlxdiag.reports.across import words

    settings = given.settings
    shown = [as_shown(audit, given) for audit in audits]
    codes = [exit_code(one, settings) for one in shown]
    if across is not None:
        codes.append(across_code(across, settings))
    if not codes:
        raise UsageError("no library has any of these families under any of these scenarios")
    whole = UNJUDGED not in codes
    text = _json(shown, across) if settings.format == "json" else _rendered(shown, across, settings)
    write_result(text, settings.output if whole else None)
    for one in shown:
        summarise(one, settings)
    if across is not None:
        complain(f"{words.verdict(across)}; {words.families_line(across)}; {across.seconds:.1f} s")
        if words.nothing_compared(across):
            complain("could not compare: no position was held against the other library's")
    if settings.output is not None and not whole:
        complain(f"{settings.output} was not written")
    return max(codes) if whole else UNJUDGED


def across_code(across: Across, settings: Settings) -> int:
    """1 for differences; 4 where nothing was compared, or not all could be judged."""
    from mlxdiag.audit.across.cell import CODE
    from mlxdiag.reports.across import words

    if across.differences and selected_code(CODE, settings):
        return FINDINGS
    if words.nothing_compared(across) or words.unjudged(across):
        return UNJUDGED
    return CLEAN


def _rendered(shown: Sequence[Shown], across: Across | None, settings: Settings) -> str:
    from mlxdiag.reports import across as comparisons
    from mlxdiag.reports.audit.formats import renderer

    parts = [renderer(settings.format)(one) for one in shown]
    if across is not None:
        # A log of annotations has no form for a table of its own.
        form = settings.format if settings.format in comparisons.FORMATS else "text"
        parts.append(comparisons.renderer(form)(across))
    return "\n".join(parts)


def _json(shown: Sequence[Shown], across: Across | None) -> str:
    from mlxdiag.reports import json
    from mlxdiag.reports.across import json as compared
    from mlxdiag.reports.audit import json as audited

    audits = [audited.document(one) for one in shown]
    whole = {"schema": SCHEMA, "audits": audits}
    return json.pretty(whole if across is None else {**whole, "across": compared.document(across)})


def _across(wanted: Wanted, asked: Sequence[str]) -> WantedAcross | None:
    """What to compare; None where no scenario is named that both libraries run."""
    from mlxdiag.audit.across import sweep
    from mlxdiag.audit.engine.names import fitting, pick

    known = sweep.scenarios()
    some = fitting(known, asked)
    if asked and not some:
        return None
    return sweep.Wanted(
        families=wanted.families,
        scenarios=pick("scenario", known, some) if asked else known,
        jobs=wanted.jobs,
        seed=wanted.seed,
        device=wanted.device,
        limit=wanted.limit,
    )


def _families(wanted: Wanted) -> tuple[str, ...]:
    from mlxdiag.audit.across import sweep

    return sweep.look(wanted.device)


def _compared(wanted: WantedAcross) -> Across:
    from mlxdiag.audit.across import causes, sweep

    complain("the same weights in both:")
    told = 0

    def watch(progress: Progress) -> None:
        nonlocal told
        part = PARTS * progress.done // progress.total
        if part > told:
            told = part
            complain(f"{progress.done} of {progress.total} families")

    return sweep.run(wanted, causes=causes.load(), watch=watch)
