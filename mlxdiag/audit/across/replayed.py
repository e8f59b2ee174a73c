"""A recorded schedule in two libraries: each run judged by itself, and both held against each other."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from mlxdiag.audit.across import meaning
from mlxdiag.audit.across.cell import CODE
from mlxdiag.audit.across.compared import Compared, Unlike, compare
from mlxdiag.audit.across.parting import Parting, find
from mlxdiag.audit.across.sentences import ends, span
from mlxdiag.audit.across.watched import WatchedReplay, Watching
from mlxdiag.audit.judge import noise as noises
from mlxdiag.errors import MlxdiagError, UnjudgedError
from mlxdiag.inspect.findings import Finding, Report, Section
from mlxdiag.inspect.inspector import Inspector
from mlxdiag.inspect.rules.md4.parity import MEANINGS
from mlxdiag.models import backends, convert
from mlxdiag.models.adapter import Instance, Skipped
from mlxdiag.models.convert.pair import MLX, TORCH
from mlxdiag.replay import experiment, prompts
from mlxdiag.replay.experiment import Prepared, Ran
from mlxdiag.replay.ops import Plan
from mlxdiag.traces.types import Parity, Trace

LIBRARIES = (TORCH, MLX)
QUANTISED = ("quantization", "quantization_config")
"""Fields of a config whose weights are not plain numbers."""


class Side(msgspec.Struct, frozen=True):
    """One library's run."""

    library: str
    instance: Instance
    ran: list[Ran]
    """By misfit policy."""


class Replayed(msgspec.Struct, frozen=True, kw_only=True):
    """Both runs, and what they have in common under the first policy."""

    sides: tuple[Side, Side]
    compared: Compared
    kind: str | None
    parting: Parting | None
    noise: dict[str, float]
    trace: Trace
    """The second library's run, with the first one's as its reference."""


def instances_for(
    prepared: Prepared, *, seed: int = 0, model_dir: Path | None = None, device: str | None = None
) -> tuple[Instance, Instance]:
    """The same weights in transformers and in mlx-lm: a tiny model, or the checkpoint in `model_dir` as it
    is.

    Raises:
        UnjudgedError: a library lacks the family, or does not take the checkpoint; quantised weights.
        UnreadableError: the checkpoint cannot be read.
    """
    if model_dir is not None:
        _require_plain(model_dir, prepared.config)
        torch = backends.checkpoint("torch", model_dir, device)
        return torch, backends.checkpoint("mlx", model_dir, device)
    for name in ("torch", "mlx"):
        found = backends.family(name, prepared.config)
        if isinstance(found, Skipped):
            raise UnjudgedError(f"{prepared.plan.architecture}: {found}; there is nothing to compare")
    meant = msgspec.structs.replace(prepared, backend="torch")
    torch = convert.exact(experiment.instance_for(meant, seed=seed, device=device), seed)
    pair = convert.of_instance(torch, torch.geometry.architecture)
    if isinstance(pair, convert.Apart):
        who = f"{pair.library}: " if pair.library else ""
        raise UnjudgedError(f"{prepared.plan.architecture}: {who}{pair}; there is nothing to compare")
    return pair.torch, pair.mlx


def _require_plain(directory: Path, config: dict[str, Any]) -> None:
    """Raises UnjudgedError for weights that one library alone can read."""
    field = next((name for name in QUANTISED if config.get(name)), None)
    if field is not None:
        raise UnjudgedError(
            f"{directory}: its weights are quantised (config field {field}), and the two libraries do not "
            "unpack them alike; give the checkpoint that it was made of"
        )


def replay(
    prepared: Prepared,
    instances: tuple[Instance, Instance],
    policies: tuple[str, ...],
    *,
    level: str = "visibility",
    parity: bool = True,
    seed: int = 0,
) -> Replayed:
    """Run every policy in both libraries on the same tokens, and compare the runs of the first one.

    Raises UnjudgedError where one of them cannot even run a short pass: there is nothing to compare then.
    """
    plan = prepared.plan
    vocab = min(one.vocab for one in instances)
    made = prompts.prompts(plan, vocab, tokens=instances[0].geometry.tokens, seed=seed)
    noise = {name: _floor(name, one, seed) for name, one in zip(LIBRARIES, instances, strict=True)}
    tolerance = noises.tolerance(max(noise.values()))
    sides, watched = [], []
    for library, instance in zip(LIBRARIES, instances, strict=True):
        kept: list[Any] = []
        ran = experiment.run_policies(
            prepared,
            instance,
            policies,
            level=level,
            parity=parity,
            seed=seed,
            made=made,
            kind=WatchedReplay,
            kept=kept,
        )
        sides.append(Side(library, instance, ran))
        watched.append(kept[0])
    compared = compare(watched[0], watched[1], tolerance)
    parting, kind = None, None
    if compared.first is not None:

        def maker(instance: Instance) -> Any:
            def make(until: Plan) -> Watching:
                return WatchedReplay(instance, until, made, policies[0], level="shapes")

            return make

        parting = find([maker(one) for one in instances], plan, compared.first)
        kind = meaning.kind_of(compared, parting)
    return Replayed(
        sides=(sides[0], sides[1]),
        compared=compared,
        kind=kind,
        parting=parting,
        noise=noise,
        trace=traced(sides[1].ran[0].trace, compared, parting, kind),
    )


def _floor(library: str, instance: Instance, seed: int) -> float:
    try:
        return noises.floor(instance, seed)
    except MlxdiagError:
        raise
    except Exception as error:  # a model may fail on a config in any way
        said = f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
        raise UnjudgedError(f"{instance.name}: {library} fails in a short pass: {said}") from error


def traced(trace: Trace, compared: Compared, parting: Parting | None, kind: str | None) -> Trace:
    """A run's trace with the other library's as the reference of its logits."""
    entries = list(trace.entries)
    first = compared.first
    for at, parity in sorted(compared.parities.items()):
        # The model is announced first, and every op of the plan has one entry.
        entry = entries[at.op + 1]
        told = msgspec.structs.replace(parity, reference=TORCH)
        if first is not None and at == first.place:
            told = _explained(told, compared, parting, kind)
        elif told.first is not None and kind == "precision":
            told = msgspec.structs.replace(told, kind=kind)
        output = list(entry.output or [])
        output[at.row] = msgspec.structs.replace(output[at.row], parity=told)
        entries[at.op + 1] = msgspec.structs.replace(entry, output=output)
    return Trace(trace.header, entries)


def _explained(parity: Parity, compared: Compared, parting: Parting | None, kind: str | None) -> Parity:
    unlike = meaning.other_keys(compared) if kind == "visibility" else None
    layer = unlike.layer if unlike is not None else parting.layer if parting is not None else None
    told = msgspec.structs.replace(parity, kind=kind, layer=layer)
    if unlike is None:
        return told
    return msgspec.structs.replace(
        told, query=unlike.position, seen=ends(unlike.second), seen_there=ends(unlike.first)
    )


def report(replayed: Replayed, source: str, codes: set[str]) -> Report:
    """MD403's findings of the comparison, and what agrees by how much. `codes`: those that are chosen."""
    inspector = Inspector(replayed.trace.header, source=source)
    for entry in replayed.trace.entries:
        inspector.feed(entry)
    whole = inspector.close()
    found = [one for one in whole.findings if one.code == CODE]
    shown = [_onward(one) for one in found if one.code in codes]
    summary = msgspec.structs.replace(whole.summary, hidden=len(found) - len(shown))
    for severity in ("error", "warning", "info"):
        setattr(summary, f"{severity}s", sum(one.severity == severity for one in shown))
    if not replayed.compared.count:
        summary.caveat = "no position of one library was held against the other's"
    return Report(
        source=f"{source} ({TORCH} against {MLX})",
        findings=shown,
        summary=summary,
        sections=[_verdict(replayed), _numbers(replayed)],
    )


def _onward(finding: Finding) -> Finding:
    """After the replay the next command is no second one."""
    return msgspec.structs.replace(finding, hint=f"mlxdiag rule {finding.code}")


def _verdict(replayed: Replayed) -> Section:
    return Section(name="across", title="The two libraries", lead=True, lines=list(_sentences(replayed)))


def _sentences(replayed: Replayed) -> list[str]:
    compared, parting = replayed.compared, replayed.parting
    stops = [
        f"{side.library} ends at step {side.ran[0].outcome.crash_step}: {side.ran[0].outcome.crash}"
        for side in replayed.sides
        if side.ran[0].outcome.crash is not None
    ]
    if not compared.count:
        return [*stops, "No position could be compared."]
    first = compared.first
    if first is None:
        return [
            *stops,
            f"{TORCH} and {MLX} agree: {compared.count} positions within {compared.largest:.1e} of the "
            f"spread of their logits (tolerance {compared.tolerance:.1e}).",
        ]
    said = [
        f"{TORCH} and {MLX} part at step {first.step} ({first.phase}), position {first.position}: "
        f"{MEANINGS[replayed.kind or 'inside']}; logits differ by up to {compared.largest:.2g} of their "
        f"spread at {len(compared.wrong)} of {compared.count} positions (tolerance {compared.tolerance:.1e})."
    ]
    unlike = meaning.other_keys(compared)
    if unlike is not None:
        said.append(_seen(replayed, unlike))
    elif parting is not None:
        where = f"layer {parting.layer}" if parting.layer is not None else "outside of the layers"
        after = f", after {parting.agreed} agreed" if parting.agreed else ""
        said.append(
            f"The first value that differs is in {where}: {parting.part or 'the layer'} ({parting.end})"
            f"{after}; by {parting.by:.2g} of its own spread at position {parting.position}."
        )
    return [*stops, *said]


def _seen(replayed: Replayed, unlike: Unlike) -> str:
    geometry = replayed.sides[0].instance.geometry
    wanted = meaning.meant(geometry, unlike)
    sides = ", ".join(
        f"{name} sees {span(seen)}"
        for name, seen in zip(LIBRARIES, (unlike.first, unlike.second), strict=True)
    )
    means = f"; the config means {span(wanted)}" if wanted is not None else ""
    return f"Layer {unlike.layer}, position {unlike.position}: {sides}{means}."


def _numbers(replayed: Replayed) -> Section:
    compared = replayed.compared
    floors = ", ".join(f"{name} {value:.1e}" for name, value in replayed.noise.items())
    lines = [
        f"{compared.count} positions and {compared.queries} queries' visible keys were held against each "
        f"other; noise floors: {floors} of the logits' spread ({compared.unit:.3g})"
    ]
    data = {
        "compared": compared.count,
        "queries": compared.queries,
        "unit": compared.unit,
        "largest": compared.largest,
        "tolerance": compared.tolerance,
        "noise": replayed.noise,
        "kind": replayed.kind,
        "wrong": len(compared.wrong),
        "parting": msgspec.to_builtins(replayed.parting),
        "unlike": [msgspec.to_builtins(one) for one in (meaning.shown(compared),) if one is not None],
    }
    return Section(name="numbers", title="What was compared", lines=lines, data=data)
