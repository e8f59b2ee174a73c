"""From a trace to verdicts: lay the plan, get a model, run every policy, judge each run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from mlxdiag.errors import UnjudgedError, UnreadableError, UsageError
from mlxdiag.inspect.findings import Report
from mlxdiag.inspect.inspector import Inspector
from mlxdiag.models import backends, catalogue
from mlxdiag.models.adapter import Instance, Skipped
from mlxdiag.replay import plan as planning
from mlxdiag.replay import prompts, recorded
from mlxdiag.replay.ops import Plan
from mlxdiag.replay.outcome import Outcome, summarise
from mlxdiag.traces.types import Family, Model, Trace

if TYPE_CHECKING:
    from mlxdiag.replay.oracle import Oracle
    from mlxdiag.replay.run import Runner


class Prepared(msgspec.Struct, frozen=True):
    """A plan and what it will run on."""

    plan: Plan
    model: Model
    config: dict[str, Any]
    """The whole model's config, before anything was cut."""
    families: dict[str, Family]
    recorded: Report
    """What the rules say of the trace itself."""
    broken: UnreadableError | None = None
    """Why the plan ends before its trace does: what comes next is impossible."""
    backend: str = "mlx"
    """The library that it will run on: mlx or torch."""
    attention: str | None = None
    """The attention implementation that the trace was recorded with, where it says so."""


class Ran(msgspec.Struct, frozen=True):
    """One policy's run."""

    policy: str
    trace: Trace
    outcome: Outcome
    report: Report
    notes: tuple[str, ...] = ()
    """What was left out of the comparison, and why."""


@contextmanager
def _named(source: str) -> Iterator[None]:
    """Errors of a config that a trace holds name the trace."""
    try:
        yield
    except UnreadableError as error:
        if str(error).startswith(source):
            raise
        raise UnreadableError(f"{source}: model.config: {error}") from None


def require_family(
    trace: Trace, config: dict[str, Any] | None = None, backend: str = "mlx", source: str = ""
) -> None:
    """Fail early where the backend's library lacks the trace's family.

    Raises:
        UnjudgedError: with the reason, and what to install where that helps.
        UnreadableError: the trace's config contradicts itself; `source` is the file that it stands in.
    """
    with _named(source):
        whole = config if config is not None else recorded.whole_config(planning.model_of(trace))
        family = backends.family(backend, whole)
    if isinstance(family, Skipped):
        raise UnjudgedError(f"{whole.get('model_type')}: {family}")


def prepare(
    trace: Trace, *, source: str, config: dict[str, Any] | None = None, backend: str | None = None
) -> Prepared:
    """Lay the plan of a trace, without building a model.

    `config`: a whole config.json to use in place of the catalogue's for the trace's architecture. `backend`:
    the library to run on, in place of the one that the trace was recorded from.

    Raises:
        UnreadableError: a schedule that is impossible before anything ran, or a trace without a model.
        UsageError: a config of another family than the trace's.
        UnjudgedError: nothing to run, or a family that nobody knows the geometry of.
    """
    from mlxdiag.models.configs import geometry

    model = planning.model_of(trace)
    chosen = backend or backends.of(trace.header.environment)
    ran = backends.attention(trace.header.environment)
    with _named(source):
        whole = config if config is not None else recorded.whole_config(model)
        if config is not None:
            _require_same_family(model, config)
        own = geometry.from_config(whole).families()
    # A checkpoint runs with its own windows, whatever the trace's model had.
    families = _overlay(own, model.layers or {}) if config is None else own
    try:
        laid = planning.lay(trace, families, source=source, model=model)
    except planning.ImpossibleError as error:
        before = Trace(trace.header, trace.entries[: error.before])
        try:
            laid = planning.lay(before, families, source=source, model=model)
        except UnjudgedError:
            raise error from None
        return Prepared(laid, model, whole, families, _judge(before, source), error, chosen, ran)
    other = _other_windows(own, model.layers or {}) if config is not None else ()
    laid = msgspec.structs.replace(laid, notes=(*laid.notes, *other))
    return Prepared(laid, model, whole, families, _judge(trace, source), backend=chosen, attention=ran)


def _other_windows(own: dict[str, Family], traced: dict[str, Family]) -> Iterator[str]:
    for name, family in traced.items():
        held = own[name].window if name in own else None
        if held is not None and family.window is not None and family.window != held:
            yield f"{name} layers: the checkpoint's window of {held} is run, the trace's was {family.window}"


def _require_same_family(model: Model, config: dict[str, Any]) -> None:
    """A trace runs on its own family only: layer kinds, masks and caches are the family's.

    Raises:
        UsageError: the checkpoint is of another one.
    """
    from mlxdiag.models.configs import geometry

    held = geometry.from_config(config).architecture
    name = model.architecture or ""
    asked = geometry.from_config(catalogue.config(name)).architecture if name in catalogue.CATALOGUE else name
    if asked and asked != held:
        raise UsageError(f"--model: the checkpoint is of family {held}, the trace of {asked}")


def _overlay(config: dict[str, Family], traced: dict[str, Family]) -> dict[str, Family]:
    """The config's families, with the windows that the trace's model really had."""
    laid = dict(config)
    for name, family in traced.items():
        if name in laid and family.window is not None:
            laid[name] = msgspec.structs.replace(laid[name], window=family.window)
    return laid


def instance_for(
    prepared: Prepared,
    *,
    seed: int = 0,
    model_dir: Path | None = None,
    device: str | None = None,
) -> Instance:
    """A tiny random instance with the trace's geometry, or the checkpoint in `model_dir`.

    Raises:
        UnjudgedError: the installed library lacks the family, or cannot build it.
        UnreadableError: the checkpoint cannot be read, or the trace's config contradicts itself.
    """
    if model_dir is not None:
        return backends.checkpoint(prepared.backend, model_dir, device, prepared.attention)
    windows = {f.window for f in prepared.families.values() if f.attention == "sliding" and f.window}
    source, family = prepared.plan.source, prepared.plan.architecture
    with _named(source):
        built = backends.tiny(
            prepared.backend,
            prepared.config,
            seed=seed,
            window=next(iter(windows)) if len(windows) == 1 else None,
            positions=prompts.needed(prepared.plan),
            label=f"tiny-{family}",
            device=device,
            attention=prepared.attention,
        )
    if isinstance(built, Skipped):
        who = "" if family in built.reason else f"{family}: "
        raise UnjudgedError(f"{source}: {who}{built}")
    return built


def run_policies(
    prepared: Prepared,
    instance: Instance,
    policies: tuple[str, ...],
    *,
    level: str = "visibility",
    parity: bool = True,
    seed: int = 0,
    made: dict[str, prompts.Prompt] | None = None,
    kind: type[Runner] | None = None,
    kept: list[Runner] | None = None,
) -> list[Ran]:
    """Run the plan once per policy on the same model, tokens and single pass.

    `made`: the tokens, where another model runs on the same ones. `kind`: the runner, of which those that ran
    are put into `kept`.
    """
    from mlxdiag.replay.oracle import Oracle

    plan = prepared.plan
    if made is None:
        made = prompts.prompts(plan, instance.vocab, tokens=instance.geometry.tokens, seed=seed)
    with instance.backend.in_few_threads(instance):
        oracle = Oracle(instance, plan, made) if parity else None
        return [_ran(plan, instance, made, policy, oracle, level, kind, kept) for policy in policies]


def _ran(
    plan: Plan,
    instance: Instance,
    made: dict[str, prompts.Prompt],
    policy: str,
    oracle: Oracle | None,
    level: str,
    kind: type[Runner] | None,
    kept: list[Runner] | None,
) -> Ran:
    from mlxdiag.replay.run import Runner

    runner = (kind or Runner)(instance, plan, made, policy, oracle=oracle, level=level)
    trace = runner.run()
    if kept is not None:
        kept.append(runner)
    notes = tuple(oracle.left_out()) if oracle is not None else ()
    return Ran(policy, trace, summarise(policy, trace), _judge(trace, plan.source), notes)


def _judge(trace: Trace, source: str) -> Report:
    """The rules over a replayed trace; `source` is the file that it was made from."""
    inspector = Inspector(trace.header, source=source)
    for entry in trace.entries:
        inspector.feed(entry)
    report = inspector.close()
    report.source = source
    return report
