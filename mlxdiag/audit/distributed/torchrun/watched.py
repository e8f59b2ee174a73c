"""One schedule on one rank's part, under the probe: its logits, and whether each of its heads sees what it
must."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np

from mlxdiag.audit.distributed.schedules import LENGTH, SCHEDULES, run
from mlxdiag.audit.distributed.told import Difference, Seen
from mlxdiag.audit.judge import blame, reading
from mlxdiag.audit.judge.judge import trace_families
from mlxdiag.audit.judge.reading import LISTED, ORACLE_OF
from mlxdiag.audit.judge.trial import Trial
from mlxdiag.audit.schedules.schedules import model_of
from mlxdiag.audit.schedules.script import Script
from mlxdiag.inspect.findings import Finding, codes
from mlxdiag.inspect.inspector import inspect_trace
from mlxdiag.models.adapter import Instance
from mlxdiag.replay import plan as planning
from mlxdiag.replay import prompts
from mlxdiag.replay.ops import Feed, Forward, Plan
from mlxdiag.replay.parity import Compared, Floats, spread
from mlxdiag.replay.prompts import Prompt
from mlxdiag.traces.types import Trace

SEQS = "ab"
"""Names of the rows."""


class Alone:
    """What one process computes under a schedule, as the reference of a trial; nobody's probe in place."""

    def __init__(self, whole: Instance, name: str, seed: int) -> None:
        rows, pieces = SCHEDULES[name]
        self.whole = whole
        self.name = name
        self.plan = lay(whole, name)
        self.prompts: dict[str, Prompt] = prompts.prompts(
            self.plan, whole.vocab, tokens=whole.geometry.tokens, seed=seed
        )
        ids = np.stack([self.prompts[seq].of(list(range(LENGTH))) for seq in SEQS[:rows]])
        logits = run(whole, ids, rows, pieces)
        self.unit = spread(logits)
        self.rows: dict[str, Floats] = dict(zip(SEQS, logits.reshape(rows, LENGTH, -1), strict=False))

    def logits(self, seq: str, history: list[int]) -> tuple[Floats, float]:
        """As `oracle.Reference.logits`."""
        return self.rows[seq][: len(history)], self.unit


class Watched(msgspec.Struct, frozen=True):
    """What a rank tells of one schedule."""

    difference: Difference
    seen: list[Seen]
    judged: dict[str, int]
    """Attention calls and queries, as `Cell.judged`."""


class _Split(Trial):
    """Keeps what was compared, forward by forward."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.compared: list[tuple[str, Compared]] = []

    def _compare(self, op: Forward, feed: Feed, own: Floats) -> Compared | None:
        compared = super()._compare(op, feed, own)
        if compared is not None:
            self.compared.append((feed.seq, compared))
        return compared


def lay(instance: Instance, name: str) -> Plan:
    """The plan of a schedule."""
    rows, pieces = SCHEDULES[name]
    script = Script()
    for length in pieces:
        script.batch(dict.fromkeys(SEQS[:rows], length))
    trace = script.trace(model_of(instance))
    return planning.lay(trace, trace_families(trace, instance), source=name)


def watch(part: Instance, alone: Alone, relative: float) -> Watched:
    """Run the schedule on this rank's part of the model, in step with the other rank.

    `relative`: what logits may differ, of their spread. Raises what the library raised.
    """
    trial = _Split(part, alone.plan, alone.prompts, alone, relative)
    found = _run(trial)
    faults = _faults(found)
    return Watched(
        _difference(alone, trial, relative),
        _new(faults, found, alone, relative) if faults else [],
        {oracle: count for oracle, count in reading.judged(found).items() if oracle != "parity"},
    )


def _run(trial: Trial) -> reading.Run:
    trace = trial.run()
    if trial.raised is not None:
        raise trial.raised
    # Beside wrong logits the report would name what is seen wrongly only as their cause.
    entries = [msgspec.structs.replace(entry, output=None) for entry in trace.entries]
    return reading.Run(trial, trace, inspect_trace(Trace(trace.header, entries)))


def _faults(found: reading.Run) -> list[Finding]:
    """What is wrong with masks, keys and what queries see."""
    geometry = found.trial.instance.geometry
    return [
        finding
        for finding in found.report.findings
        if reading.damning(finding, geometry) and finding.code[:3] in ORACLE_OF
    ]


def _new(faults: list[Finding], found: reading.Run, alone: Alone, relative: float) -> list[Seen]:
    """Those of the faults that one process does not have, with the line that makes the mask in it."""
    trial = Trial(alone.whole, alone.plan, alone.prompts, None, relative)
    sites = trial.audited.sites(trial)
    with sites.noting():
        before = {(one.code, one.step, one.family) for one in _faults(_run(trial))}
    windows = {name: family.window for name, family in alone.plan.families.items()}
    wrong = sorted(set(reading.wrong_queries(found.trace, windows)))[:LISTED]
    seen = []
    for one in faults:
        if (one.code, one.step, one.family) in before:
            continue
        layers = reading.layers(one, found.trace) or []
        fired = [one.code, *sorted(code for code in codes([one]) - {one.code} if code[:3] in ORACLE_OF)]
        where = blame.line(alone.whole, fired, one.step, layers, sites)
        seen.append(
            Seen(alone.name, fired, reading.sentence(one, found), one.step, one.seq, layers, wrong, where)
        )
    return seen


def _difference(alone: Alone, trial: _Split, relative: float) -> Difference:
    """Positions of the second row follow on those of the first."""
    largest, first, wrong = 0.0, None, []
    for seq, compared in trial.compared:
        largest = max(largest, compared.max_abs)
        wrong += [SEQS.index(seq) * LENGTH + position for position in compared.wrong]
        first = first or (compared if compared.wrong else None)
    return Difference(
        alone.name,
        sum(compared.count for _, compared in trial.compared),
        # JSON has no infinity.
        min(largest, 1e38),
        relative * alone.unit,
        sorted(wrong),
        first.margin if first is not None else None,
    )
