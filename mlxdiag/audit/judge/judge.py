"""One family under one scenario: run it under the probe, ask the three oracles, write the cell."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from typing import TYPE_CHECKING

import msgspec

from mlxdiag.audit.cell import LIBRARY, Cell, Scenario
from mlxdiag.audit.faults import text
from mlxdiag.audit.judge import blame, reading
from mlxdiag.audit.judge import noise as noises
from mlxdiag.audit.judge.passes import Passes, Reference
from mlxdiag.audit.judge.tame import tamed
from mlxdiag.audit.judge.trial import Trial
from mlxdiag.audit.libraries import table
from mlxdiag.audit.schedules import schedules
from mlxdiag.errors import UnjudgedError
from mlxdiag.inspect.inspector import inspect_trace
from mlxdiag.models.adapter import Instance, Skipped
from mlxdiag.replay import plan as planning
from mlxdiag.replay import prompts
from mlxdiag.replay.ops import Adopt, Cut, Plan
from mlxdiag.replay.prompts import Prompt
from mlxdiag.traces.types import Family, Trace

if TYPE_CHECKING:
    from mlxdiag.audit.plants.plant import Planted


class Setting(msgspec.Struct, frozen=True):
    """A scenario made ready for one model."""

    trace: Trace
    plan: Plan
    prompts: dict[str, Prompt]


def prepare(instance: Instance, scenario: Scenario, *, seed: int = 0) -> Setting:
    """The schedule as a trace, its plan and its tokens.

    Raises:
        UnjudgedError: the vocabulary is too small for the schedule.
    """
    trace = schedules.build(scenario.name, instance)
    plan = planning.lay(trace, trace_families(trace, instance), source=scenario.name)
    return Setting(
        trace, plan, prompts.prompts(plan, instance.vocab, tokens=instance.geometry.tokens, seed=seed)
    )


def trace_families(trace: Trace, instance: Instance) -> dict[str, Family]:
    """The layer families as the trace's model has them; the instance's own where it says nothing."""
    model = trace.header.model
    return dict(model.layers) if model is not None and model.layers else instance.geometry.families()


def judge(
    instance: Instance,
    scenario: Scenario,
    *,
    noise: float,
    seed: int = 0,
    plant: Planted | None = None,
    passes: Passes | None = None,
) -> Cell:
    """The cell of one family and scenario.

    Args:
        noise: the family's noise floor, as `noise.floor` measures it.
        plant: a fault to put in while the scenario runs; the single passes are not touched by it.
        passes: single passes of this very instance, to be shared between scenarios.

    Raises:
        Exception: whatever this program itself raised, and not the library under its hands.
    """
    started = time.perf_counter()
    library = table.of(instance)
    cell = Cell(library=library.name, family=instance.name, scenario=scenario.name, result="skipped")
    why = schedules.inapplicable(scenario.name, instance)
    if why is not None:
        cell.reason = why
    elif not library.drive(cell, instance, noise, seed):
        try:
            setting = prepare(instance, scenario, seed=seed)
            staged = library.staged(instance, scenario.name)
            _fill(cell, staged, scenario, setting, noise, plant, passes or Passes(instance))
        except UnjudgedError as error:
            cell.reason = str(error)
    cell.seconds = time.perf_counter() - started
    return cell


def _fill(
    cell: Cell,
    instance: Instance,
    scenario: Scenario,
    setting: Setting,
    noise: float,
    plant: Planted | None,
    passes: Passes,
) -> None:
    """Run the scenario, and write what comes out into its cell."""
    try:
        reference = Reference(passes, setting.plan, setting.prompts)
    except BaseException as error:  # noqa: BLE001  a release may break a family altogether
        reading.crashed(cell, tamed(error), "the single pass")
        cell.trace = text.of(setting.trace)
        return
    kind = table.of(instance).trial(setting.plan, scenario.name)
    trial = kind(instance, setting.plan, setting.prompts, reference, noises.tolerance(noise))
    with plant.apply(instance, scenario) if plant is not None else nullcontext():
        trace = trial.run()
    reading.write(cell, setting.trace, reading.Run(trial, trace, inspect_trace(trace)))
    if cell.result == "pass" and scenario.name in schedules.CAPPED:
        cell.reason = schedules.CAP_NOTE if cell.judged["parity"] else schedules.CAP_ROWS_NOTE
    if cell.result == "fail" and plant is None:
        cell.where = _where(instance, setting, cell)


def _where(instance: Instance, setting: Setting, cell: Cell) -> str:
    """Run it once more, to see who makes what is wrong."""
    library = table.of(instance)
    kind = library.trial(setting.plan, cell.scenario) if setting.plan.scheduler.looped else Trial
    trial = kind(instance, setting.plan, setting.prompts, None, 1.0)
    sites = library.sites(trial)
    with sites.noting():
        trial.run()
    step, layers = cell.evidence.get("step"), cell.evidence.get("layers")
    trimmed = any(
        isinstance(op, Cut) or (isinstance(op, Adopt) and op.trimmed)
        for op in setting.plan.ops
        if (op.step or 0) < (step or 0)
    )
    return blame.line(instance, cell.codes, step, layers, sites, trimmed=trimmed)


def audit_family(
    family: str,
    scenarios: Iterable[Scenario],
    seed: int = 0,
    *,
    plant: Planted | None = None,
    library: str = LIBRARY,
    device: str | None = None,
) -> Iterator[Cell]:
    """The cells of one family, one after the other on one instance. A family that cannot run is skipped in
    each, with the reason; one that the library itself breaks, at import or in a short pass, crashes in each.

    Raises:
        Exception: as `judge`.
    """
    audited = table.named(library)
    broken = audited.broken(family)
    instance = broken or audited.tiny(family, seed, device)
    unfit = Cell(library=library, family=family, scenario="", result="skipped")
    if broken is not None:
        unfit.result, unfit.codes = "crash", [reading.ENDED]
        unfit.reason, unfit.where = broken.reason, getattr(broken, "where", "")
    elif isinstance(instance, Skipped):
        unfit.reason = str(instance)
    else:
        try:
            noise = noises.floor(instance, seed)
        except BaseException as error:  # noqa: BLE001  as in `_fill`
            reading.crashed(unfit, tamed(error), "the shortest single pass")
        else:
            passes = Passes(instance)
            for scenario in scenarios:
                cell = judge(instance, scenario, noise=noise, seed=seed, plant=plant, passes=passes)
                cell.family, cell.noise = family, noise
                yield cell
            return
    for scenario in scenarios:
        yield msgspec.structs.replace(unfit, scenario=scenario.name)
