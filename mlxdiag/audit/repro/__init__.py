"""Standalone scripts that show a fault with nothing but its library: for the one who has to believe it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from mlxdiag.audit.cell import Cell, Fault
from mlxdiag.audit.engine.table import APART
from mlxdiag.audit.judge import judge, reading
from mlxdiag.audit.judge import noise as noises
from mlxdiag.audit.judge.passes import Passes, Reference
from mlxdiag.audit.libraries import table
from mlxdiag.audit.repro import transformers
from mlxdiag.audit.repro.assemble import compose, module_of
from mlxdiag.audit.repro.subject import Subject, forwards
from mlxdiag.audit.schedules.scenarios import DRIVEN
from mlxdiag.errors import UnjudgedError
from mlxdiag.inspect.inspector import inspect_trace
from mlxdiag.models.adapter import Instance, Skipped
from mlxdiag.replay import experiment, prompts
from mlxdiag.replay import plan as planning
from mlxdiag.replay.plan import model_of
from mlxdiag.traces.reader import parse
from mlxdiag.traces.types import Trace

__all__ = ["Confirmed", "Subject", "compose", "confirm", "of_trace", "script", "write"]


def script(found: Fault | Cell, *, seed: int = 0, control: Trace | None = None) -> str:
    """The script of a fault's smallest schedule, of a cell's own, or of `control`, the nearest right one.

    Raises:
        UnjudgedError: there is no schedule, or the family cannot be built here.
    """
    if isinstance(found, Cell):
        text, family, cause = found.trace, found.family, found.reason
    else:
        text, family, cause = found.smallest, found.families[0], found.cause
    if control is None and not text:
        raise UnjudgedError(f"{family}: there is no schedule to write a script of")
    trace = control if control is not None else parse(text)
    return _of(
        trace, found.library, family, found.codes, cause, found.where, seed, passes=control is not None
    )


def of_trace(
    trace: Trace,
    *,
    source: str,
    codes: tuple[str, ...],
    cause: str = "",
    policy: str | None = None,
    seed: int = 0,
    passes: bool = False,
) -> str:
    """The script of a recorded trace on a tiny instance of its model, masks of its scheduler handed in.

    `codes`: what a replay of it finds; they decide what the script looks at.

    Raises:
        UnjudgedError, UnreadableError: as a replay does.
    """
    prepared = experiment.prepare(trace, source=source)
    instance = experiment.instance_for(prepared, seed=seed)
    plan = prepared.plan
    written = transformers.compose if prepared.backend == "torch" else compose
    return written(
        Subject(
            plan=plan,
            prompts=prompts.prompts(plan, instance.vocab, tokens=instance.geometry.tokens, seed=seed),
            instance=instance,
            title=f"{plan.architecture}: {forwards(plan)}",
            cause=cause,
            codes=codes,
            raises="ValueError" if "MD901" in codes else "",  # of attention, whoever threw it as recorded
            policy=policy or plan.misfit,
            seed=seed,
            passes=passes,
        )
    )


def write(fault: Fault, directory: Path, *, seed: int = 0) -> Path | None:
    """Write a fault's script into the directory; None for a fault without a schedule."""
    ways = {name for _, name in fault.cells}
    split = fault.library == "transformers" and bool(ways) and ways <= set(APART)
    if not fault.smallest and not split:
        return None
    path = Path(directory) / f"{fault.id}.py"
    path.write_text(_split(fault, seed) if split else script(fault, seed=seed), encoding="utf-8")
    path.chmod(0o755)
    return path


def _split(fault: Fault, seed: int) -> str:
    from mlxdiag.audit.distributed.torchrun import script

    return script.compose(fault, seed)


class Confirmed(NamedTuple):
    """What running a script gave."""

    code: int
    """0 right, 1 the fault is there, 2 it could not run; 124: it did not end in time."""
    output: str


def confirm(path: Path, *, timeout: float = 120.0, library: Path | None = None) -> Confirmed:
    """Run a script apart from this program: isolated, so that only installed packages can be imported.

    `library`: a folder that holds another copy of mlx_lm, to be imported in place of the installed one.
    """
    command = [sys.executable, "-I", str(path)]
    if library is not None:
        start = f"import sys, runpy; sys.path.insert(0, {str(library)!r}); runpy.run_path({str(path)!r}, "
        command = [sys.executable, "-I", "-c", f"{start}run_name='__main__')"]
    kept = ("PATH", "HOME", "LANG", "SYSTEMROOT", "TMPDIR", "MLX_DISABLE_COMPILE")
    environment = {name: os.environ[name] for name in kept if name in os.environ}
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=timeout, check=False, env=environment
        )
    except subprocess.TimeoutExpired:
        return Confirmed(124, f"it did not end within {timeout:.0f} s")
    return Confirmed(done.returncode, done.stdout + done.stderr)


def _of(
    trace: Trace,
    library: str,
    family: str,
    codes: list[str],
    cause: str,
    where: str,
    seed: int,
    *,
    passes: bool = False,
) -> str:
    instance = _instance(trace, library, family, seed)
    scenario = (trace.header.source or {}).get("scenario", "")
    if scenario in DRIVEN:
        return _driven(instance, scenario, cause, where, seed)
    plan = planning.lay(trace, judge.trace_families(trace, instance), source=family)
    made = prompts.prompts(plan, instance.vocab, tokens=instance.geometry.tokens, seed=seed)
    tolerance = noises.tolerance(noises.floor(instance, seed))
    staged = table.of(instance).staged(instance, scenario)
    seen, raises = codes, ""
    if not passes:
        reference = Reference(Passes(instance), plan, made)
        trial = table.of(instance).trial(plan, scenario)(staged, plan, made, reference, tolerance)
        replayed = trial.run()
        cell = Cell(library=library, family=family, scenario="", result="skipped")
        reading.write(cell, trace, reading.Run(trial, replayed, inspect_trace(replayed)))
        seen = cell.codes or codes
        raises = type(trial.raised).__name__ if trial.raised is not None else ""
    written = transformers.compose if library == "transformers" else compose
    return written(
        Subject(
            plan=plan,
            prompts=made,
            instance=staged,
            title=f"{_called(instance)}: {forwards(plan)}",
            cause=cause,
            where=where,
            codes=tuple(seen),
            raises=raises,
            seed=seed,
            tolerance=tolerance,
            passes=passes,
        )
    )


def _driven(instance: Instance, scenario: str, cause: str, where: str, seed: int) -> str:
    from mlxdiag.audit.libraries import torch_generation
    from mlxdiag.audit.repro.transformers import driven

    return driven.compose(
        driven.Driven(
            instance=instance,
            scenario=scenario,
            prompts=torch_generation.prompts(instance, seed),
            cause=cause,
            where=where,
            seed=seed,
            tolerance=noises.tolerance(noises.floor(instance, seed)),
        )
    )


def _called(instance: Instance) -> str:
    """The module that the script builds, which a fault of several families need not name first."""
    module = instance.module.__name__ if instance.backend.name == "torch" else module_of(instance)
    return module if module.endswith(f".{instance.name}") else f"{module} ({instance.name})"


def _instance(trace: Trace, library: str, family: str, seed: int) -> Instance:
    """The zoo's instance of the family, or one with the config that the trace names."""
    name = model_of(trace).name or family
    if library == "transformers":
        made = table.named(library).tiny(name, seed)
        if isinstance(made, Skipped):
            raise UnjudgedError(f"{name}: {made}")
        return made
    from mlxdiag.models.mlx import tiny, zoo

    built = zoo.tiny(name, seed)
    config = dict(model_of(trace).config or {})
    if not isinstance(built, Skipped) and config and config != built.config:
        built = tiny.instance(config, seed=seed, name=name)
    if isinstance(built, Skipped):
        raise UnjudgedError(f"{name}: {built}")
    return built
