"""`mlxdiag replay --backend mlx,torch`: the same weights and tokens in both libraries, and what they make of
them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from mlxdiag.cli import verdict
from mlxdiag.cli.deliver import deliver
from mlxdiag.cli.settings import Settings
from mlxdiag.cli.streams import complain
from mlxdiag.errors import CLEAN, MlxdiagError, UnjudgedError

if TYPE_CHECKING:
    from mlxdiag.replay.experiment import Prepared


class Given(msgspec.Struct, frozen=True, kw_only=True):
    """The command's options, read and checked."""

    policies: tuple[str, ...]
    level: str
    parity: bool
    seed: int
    model: Path | None
    device: str | None
    output: Path | None
    force: bool


def replay_both(prepared: Prepared, given: Given, settings: Settings, broken: MlxdiagError | None) -> int:
    """Run both, show both verdicts, then the comparison; the exit code.

    Raises:
        UnjudgedError: only one library has the family, or takes the checkpoint.
    """
    from mlxdiag.audit.across import replayed
    from mlxdiag.inspect.inspector import chosen
    from mlxdiag.replay.show import replay_report

    instances = replayed.instances_for(prepared, seed=given.seed, model_dir=given.model, device=given.device)
    found = replayed.replay(
        prepared, instances, given.policies, level=given.level, parity=given.parity, seed=given.seed
    )
    reports = []
    for side in found.sides:
        report = replay_report(side.ran, prepared, side.instance, settings.select, settings.ignore)
        report.source = f"{prepared.plan.source} ({side.library})"
        reports.append(report)
    codes = {rule.code for rule in chosen(settings.select, settings.ignore)}
    reports.append(replayed.report(found, prepared.plan.source, codes))
    unjudged: list[MlxdiagError] = [broken] if broken else []
    if given.output is not None:
        from mlxdiag.traces.writer import dump

        try:
            dump(found.trace, given.output, force=given.force)
            complain(f"{given.output}: the replayed trace of mlx-lm, against transformers")
        except MlxdiagError as error:
            unjudged.append(error)  # the verdict is not lost with it
    if not found.compared.count:
        unjudged.append(UnjudgedError(f"{prepared.plan.source}: nothing was compared"))
    elif verdict.exit_code(reports, settings) == CLEAN:
        unjudged += [
            UnjudgedError(f"{report.source}: {report.summary.caveat}")
            for report in reports
            if report.summary.caveat
        ]
    return deliver(reports, settings, unjudged)
