"""A replay, or a plan, as a report: sections that every output format can render."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from mlxdiag.inspect.findings import Finding, Report, Section
from mlxdiag.inspect.inspector import chosen
from mlxdiag.models.adapter import Instance
from mlxdiag.replay import memory, reproduce, verdict
from mlxdiag.replay.experiment import Prepared, Ran
from mlxdiag.replay.ops import Adopt, Cut, Event, Evict, Forward, Op, Regroup
from mlxdiag.replay.outcome import StepOutcome

POLICY_HEADER = ["misfit", "crash", "empty rows", "wrong queries", "padding seen", "parity", "first wrong"]


def replay_report(
    ran: Sequence[Ran],
    prepared: Prepared,
    instance: Instance,
    select: Sequence[str] = (),
    ignore: Sequence[str] = (),
) -> Report:
    """Findings of the first policy's run, and every policy's row beside them."""
    first = ran[0]
    codes = {rule.code for rule in chosen(select, ignore)}
    findings = [_onward(finding) for finding in first.report.findings if finding.code in codes]
    summary = msgspec.structs.replace(first.report.summary)
    summary.hidden = len(first.report.findings) - len(findings)
    for severity in ("error", "warning", "info"):
        setattr(summary, f"{severity}s", sum(1 for f in findings if f.severity == severity))
    absent = list(not_reproduced(first, prepared))
    if _alike(first):
        summary.caveat = (
            "the model gives the same logits everywhere and its keys are all alike: none was told apart"
        )
    if absent:
        summary.caveat = (
            f"{len(absent)} recorded fault{'s were' if len(absent) > 1 else ' was'} not reproduced"
        )
    return Report(
        source=prepared.plan.source,
        findings=findings,
        summary=summary,
        sections=[_verdict(ran), *_absent(absent), _setting(prepared, instance, first), _policies(ran)],
    )


def _alike(ran: Ran) -> bool:
    """Whether the run says nothing: no key was recognised, and the logits have no spread to differ in.

    So it is with weights of zeros, or with values in a config that make every output zero.
    """
    outcome = ran.outcome
    return (
        outcome.crash is None and outcome.tolerance == 0 and not any(step.queries for step in outcome.steps)
    )


def not_reproduced(ran: Ran, prepared: Prepared) -> Iterator[Finding]:
    """Faults of the trace that the run does not show: there the library is right, and nothing was planted."""
    return reproduce.missing(
        prepared.recorded,
        ran.report,
        same_policy=ran.policy == prepared.plan.misfit,
        until=ran.outcome.crash_step,
    )


def _absent(findings: Sequence[Finding]) -> list[Section]:
    if not findings:
        return []
    lines = [reproduce.sentence(finding) for finding in findings]
    lines.append("The installed library does right here what the recorded program did wrong, and the replay")
    lines[-1] += " has no way to put this fault in: it says nothing about it."
    return [Section(name="not_reproduced", title="Recorded, but not reproduced", lead=True, lines=lines)]


def _onward(finding: Finding) -> Finding:
    """After a replay the next command is no second one."""
    if finding.hint.startswith("mlxdiag replay "):
        return msgspec.structs.replace(finding, hint=f"mlxdiag rule {finding.code}")
    return finding


def _setting(prepared: Prepared, instance: Instance, first: Ran) -> Section:
    plan = prepared.plan
    depth = len(instance.geometry.layers)
    forwards, sequences = len(plan.forwards), len(plan.lengths)
    lines = [
        f"{instance.name}: real {plan.architecture} code of {_library(first)} on {instance.device}"
        f"{_with(prepared, instance)}, {depth} layers, "
        f"{_windows(instance)}; {forwards} forward{'s' * (forwards != 1)} of "
        f"{sequences} sequence{'s' * (sequences != 1)}",
        *(f"planted: {what}" for what in plan.planted),
        *(f"assumed: {what}" for what in plan.notes),
        *(f"note: {what}" for what in (*instance.geometry.notes, *first.notes)),
    ]
    return Section(name="setting", title="What ran", lines=lines, data={"policy": first.policy})


def _library(ran: Ran) -> str:
    """The library whose model code ran, and its version: the last of what the replayed trace names."""
    name, version = list((ran.trace.header.environment or {})["libraries"].items())[-1]
    return f"{name} {version}"


def _with(prepared: Prepared, instance: Instance) -> str:
    """The attention implementation, where the trace tells of one."""
    name = getattr(instance, "attention", None)
    return f" with {name} attention" if prepared.attention and name else ""


def _windows(instance: Instance) -> str:
    parts = [
        f"{name} x{family.count}" + (f" (window {family.window})" if family.window else "")
        for name, family in instance.geometry.families().items()
    ]
    return ", ".join(parts)


def _verdict(ran: Sequence[Ran]) -> Section:
    if len(ran) == 1:
        return Section(name="verdict", title="Verdict", lead=True, lines=verdict.sentences(ran[0]))
    lines = [f"{one.policy}: {verdict.sentences(one)[0]}" for one in ran]
    others = dict.fromkeys(text for one in ran[::-1] for text in verdict.sentences(one)[1:])
    return Section(name="verdict", title="Verdict", lead=True, lines=lines + list(others)[-1:])


def _policies(ran: Sequence[Ran]) -> Section:
    rows: list[list[str | int | float | bool | None]] = []
    for one in ran:
        outcome = one.outcome
        wrong = outcome.first_wrong
        read = any(step.queries for step in outcome.steps)
        rows.append(
            [
                one.policy,
                f"step {outcome.crash_step}" if outcome.crash is not None else "no",
                outcome.empty if read else None,
                outcome.wrong_window if read else None,
                outcome.padding if read else None,
                _parity(one),
                _first(wrong),
            ]
        )
    return Section(
        name="policies",
        title="What a consumer does with a mask that does not fit, and what comes of it (queries counted)",
        header=POLICY_HEADER,
        rows=rows,
        data={"policies": [_data(one) for one in ran]},
    )


def _first(wrong: StepOutcome | None) -> str:
    if wrong is None:
        return "none"
    return f"step {wrong.step}" + (f", position {wrong.first}" if wrong.first is not None else "")


def _parity(ran: Ran) -> str | None:
    outcome = ran.outcome
    if outcome.max_abs is None:
        return None
    if outcome.nan:
        return f"NaN at {outcome.nan} of {outcome.compared} positions"
    return f"{outcome.max_abs:.2g} over {outcome.compared} positions (tolerance {outcome.tolerance:.2g})"


def _data(ran: Ran) -> dict[str, Any]:
    outcome = ran.outcome
    return {
        "policy": ran.policy,
        "crash": outcome.crash,
        "crash_step": outcome.crash_step,
        "empty_rows": outcome.empty,
        "window_errors": outcome.wrong_window,
        "padding_seen": outcome.padding,
        "nan": outcome.nan,
        "max_abs": outcome.max_abs,
        "tolerance": outcome.tolerance,
        "compared": outcome.compared,
        "codes": [finding.code for finding in ran.report.findings],
        "steps": [msgspec.to_builtins(step) for step in outcome.steps],
    }


def plan_text(prepared: Prepared, policies: Sequence[str]) -> str:
    """What `--plan` prints: every op, and the memory that a tiny instance needs at its peak."""
    plan = prepared.plan
    need = memory.estimate(prepared)
    lines = [
        f"{plan.source}: {len(plan.forwards)} forwards of {plan.architecture}, nothing is run",
        f"misfit: {', '.join(policies)}",
        *(f"planted: {what}" for what in plan.planted),
        *(f"assumed: {what}" for what in plan.notes),
        f"memory: about {memory.human(need.tiny)} on a tiny instance ({need.words})",
        "",
        *(f"{'-' if op.step is None else op.step:>6}  {_kind(op):9} {describe(op)}" for op in plan.ops),
    ]
    return "\n".join(lines) + "\n"


def plan_json(prepared: Prepared, policies: Sequence[str]) -> str:
    """The same for machines."""
    document = {
        "schema": "mlxdiag.plan/1",
        "misfit": list(policies),
        "bytes": memory.estimate(prepared).tiny,
        "plan": prepared.plan,
    }
    return msgspec.json.format(msgspec.json.encode(document), indent=2).decode() + "\n"


def _kind(op: Op) -> str:
    return op.phase if isinstance(op, Forward | Cut | Regroup | Event) else type(op).__name__.lower()


def describe(op: Op) -> str:
    """One op in words."""
    if isinstance(op, Forward):
        rows = "; ".join(_feed(op, i) for i in range(len(op.feeds)))
        masks = "".join(
            f"; caller's {c.builder} mask {list(c.shape)} built at {c.offset}"
            + (f" for {c.family}" if c.family else "")
            for c in op.callers
        )
        return rows + masks + (" (assumed)" if op.assumed else "")
    if isinstance(op, Cut):
        return f"{', '.join(op.seqs)}: {op.tokens} tokens off the end"
    if isinstance(op, Evict):
        return f"{', '.join(op.seqs)}: down to {op.cap} keys, {op.sinks} sinks kept"
    if isinstance(op, Adopt):
        return f"{op.seq}: {op.matched} tokens of an entry of {op.entry}, {op.trimmed} cut off"
    return ", ".join(op.seqs)


def _feed(op: Forward, row: int) -> str:
    feed = op.feeds[row]
    padding = f", {feed.left} padding before" if feed.left else ""
    padding += f", {feed.right} padding after" if feed.right else ""
    return f"{feed.seq}: {feed.tokens} tokens from {feed.start}{padding}"
