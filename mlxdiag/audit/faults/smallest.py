"""The smallest schedule that still shows what a cell shows: result, headline, and the words of a crash."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import msgspec

from mlxdiag.audit.cell import LIBRARY, Cell
from mlxdiag.audit.engine.table import APART
from mlxdiag.audit.faults import text as texts
from mlxdiag.audit.faults.faults import headline
from mlxdiag.audit.judge import judge, reading
from mlxdiag.audit.judge import noise as noises
from mlxdiag.audit.judge.passes import Passes, Reference
from mlxdiag.audit.libraries import table
from mlxdiag.audit.schedules.scenarios import DRIVEN
from mlxdiag.errors import UnjudgedError
from mlxdiag.inspect.inspector import inspect_trace
from mlxdiag.models.adapter import Instance, Skipped
from mlxdiag.replay import plan as planning
from mlxdiag.replay import prompts
from mlxdiag.replay.ops import Adopt, Event, Plan
from mlxdiag.replay.oracle import replay_tape
from mlxdiag.replay.shrink import shrink
from mlxdiag.replay.shrink.oracles import Seen
from mlxdiag.replay.tape import Tape
from mlxdiag.traces.reader import parse
from mlxdiag.traces.types import Trace

BUDGET = 40
"""Runs that a search may take, at about 50 ms each."""


class Judging:
    """The audit's own judgement of any schedule of one family, as an oracle for `shrink`.

    Single passes are made anew for every schedule: a model that sees the future gives the same tokens other
    logits in a longer pass.
    """

    def __init__(self, instance: Instance, scenario: str, seed: int) -> None:
        self.instance = instance
        self.scenario = scenario
        self.seed = seed
        self.library = table.of(instance)
        self.staged = self.library.staged(instance, scenario)
        self.tolerance = noises.tolerance(noises.floor(instance, seed))

    def __call__(self, trace: Trace) -> Seen:
        cell = self.cell(trace)
        return None if cell is None else frozenset({sight(cell)} if cell.wrong else ())

    def cell(self, trace: Trace) -> Cell | None:
        """The cell of a schedule; None where it cannot be run."""
        instance = self.instance
        cell = Cell(library=self.library.name, family=instance.name, scenario=self.scenario, result="skipped")
        try:
            plan = planning.lay(trace, judge.trace_families(trace, instance), source=self.scenario)
            if not _adopts_what_is_stored(plan):
                return None
            made = prompts.prompts(plan, instance.vocab, tokens=instance.geometry.tokens, seed=self.seed)
            kind = self.library.trial(plan, self.scenario)
            trial = kind(self.staged, plan, made, Reference(Passes(instance), plan, made), self.tolerance)
            ran = trial.run()
            reading.write(cell, trace, reading.Run(trial, ran, inspect_trace(ran)))
        except Exception:  # noqa: BLE001  what is left of a schedule may ask for what cannot be
            return None
        return cell


def _adopts_what_is_stored(plan: Plan) -> bool:
    """Whether adopted entries are as long as those that were stored: else the schedule is at fault."""
    tapes: dict[str, Tape] = {}
    stored: set[int] = set()
    for op in plan.ops:
        if isinstance(op, Event) and op.phase == "save":
            # Behind drafts an entry is named by all that was emitted, of which the last token was not fed.
            stored |= {len(tapes[seq].own) + bool(plan.scheduler.looped) for seq in op.seqs}
        if isinstance(op, Adopt) and plan.scheduler.store == "trie" and op.entry not in stored:
            return False
        replay_tape(op, tapes)
    return True


def sight(cell: Cell) -> str:
    """What must stay the same. Shapes alone are not enough where what is seen or the logits were wrong."""
    words = re.sub(r"\d+", "#", cell.reason.partition(": ")[2]) if cell.result == "crash" else ""
    oracles = " ".join(name for name in cell.oracles if name != "geometry") if cell.result == "fail" else ""
    told = f"{cell.result} {headline(cell.codes)} {oracles} {words}"
    if cell.library != LIBRARY and cell.result == "fail":
        told += f" {circumstances(cell)}"
    return " ".join(told.split())


def circumstances(cell: Cell) -> str:
    """The phase of the step that is wrong, and whether rows were padded in front: a model that keeps its
    state on itself is wrong from its first token on, and every other fault would shrink to that."""
    phase = re.match(r"step \d+ \((\w+)\)", cell.reason)
    padded = '"left_padding"' in cell.trace
    return f"{phase[1] if phase else ''} {'padded' if padded else ''}"


def smallest(given: dict[str, Any], seed: int) -> Iterator[Cell]:
    """The cell of the smallest schedule of a wrong cell (as plain data); nothing where none is found."""
    cell = msgspec.convert(given, Cell)
    if cell.scenario in APART or cell.scenario in DRIVEN:
        return
    instance = table.named(cell.library).tiny(cell.family, seed)
    if isinstance(instance, Skipped):
        return
    if not cell.trace:
        yield _unheard(cell, instance, seed)
        return
    judging = Judging(instance, cell.scenario, seed)
    try:
        found = shrink(
            parse(cell.trace), judging, BUDGET, target=frozenset({sight(cell)}), fixed=("window", "max_kv")
        )
    except UnjudgedError:
        return
    made = judging.cell(found.trace)
    if made is not None and made.wrong:
        made.family, made.trace = cell.family, texts.of(found.trace)
        yield made


def _unheard(cell: Cell, instance: Instance, seed: int) -> Cell:
    """A cell whose worker died before it could tell its schedule, with it. It is not run again."""
    from mlxdiag.audit.schedules.scenarios import named

    trace = judge.prepare(instance, named(cell.scenario), seed=seed).trace
    return msgspec.structs.replace(cell, trace=texts.of(trace))
