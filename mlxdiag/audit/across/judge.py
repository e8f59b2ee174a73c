"""One family in two libraries: every scenario run in both, compared, and each difference traced."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import Any

import numpy as np

from mlxdiag.audit.across import meaning
from mlxdiag.audit.across.cell import CODE, SAVED, Cell, Result, Row, RowResult, row_of
from mlxdiag.audit.across.compared import Compared, compare
from mlxdiag.audit.across.parting import Parting, find
from mlxdiag.audit.across.sentences import sentence
from mlxdiag.audit.across.watched import Watched
from mlxdiag.audit.cell import Scenario
from mlxdiag.audit.judge import noise as noises
from mlxdiag.audit.judge.judge import Setting, prepare
from mlxdiag.audit.judge.passes import Passes, Reference
from mlxdiag.audit.judge.reading import ours, refuses
from mlxdiag.audit.judge.tame import kind, tamed
from mlxdiag.audit.schedules import schedules
from mlxdiag.audit.schedules.scenarios import named
from mlxdiag.errors import UnjudgedError
from mlxdiag.models import convert
from mlxdiag.models.adapter import Instance
from mlxdiag.models.convert.pair import MLX, TORCH, Pair
from mlxdiag.replay.oracle import histories

LIBRARIES = (TORCH, MLX)
LONGEST = "fresh-over-window"
"""The scenario whose schedule `SAVED` runs."""
LISTED = 16
"""Positions of a visible set that a cell's evidence holds."""
TOLD = 300
"""Letters of an exception that a cell holds."""


class BrokenPassError(Exception):
    """A library cannot even run a short pass."""

    def __init__(self, library: str, said: str) -> None:
        super().__init__(said)
        self.library = library


class Session:
    """The comparisons of one pair: noise is measured once, and equal differences are traced once."""

    def __init__(self, pair: Pair, seed: int = 0) -> None:
        self.pair = pair
        self.seed = seed
        self.noise = {name: _floor(name, one, seed) for name, one in pair.sides}
        self.tolerance = noises.tolerance(max(self.noise.values()))
        self._passes = {name: Passes(one) for name, one in pair.sides}
        self._traced: dict[Any, Parting | None] = {}

    def cell(self, scenario: Scenario) -> Cell:
        """The cell of one scenario."""
        started = time.perf_counter()
        cell = Cell(family=self.pair.family, scenario=scenario.name, result="skipped")
        why = self._inapplicable(scenario.name)
        if why is not None:
            cell.reason = why
        else:
            try:
                self._fill(cell, prepare(self.pair.torch, scenario, seed=self.seed))
            except UnjudgedError as error:
                cell.reason = str(error)
        cell.seconds = time.perf_counter() - started
        return cell

    def _inapplicable(self, scenario: str) -> str | None:
        found = (schedules.inapplicable(scenario, one) for _, one in self.pair.sides)
        return next((why for why in found if why is not None), None)

    def _fill(self, cell: Cell, setting: Setting) -> None:
        runs: dict[str, Watched] = {}
        for name, _ in self.pair.sides:
            try:
                run = self._run(name, setting)
            except UnjudgedError as error:
                cell.result, cell.library, cell.reason = "refused", name, str(error)
                return
            runs[name] = run
            if run.raised is not None:
                _stopped(cell, name, run.raised)
                return
        compared = compare(runs[TORCH], runs[MLX], self.tolerance)
        cell.compared, cell.queries = compared.count, compared.queries
        cell.unit, cell.largest, cell.tolerance = compared.unit, compared.largest, compared.tolerance
        if not compared.count:
            cell.reason = "it ran, and no position's logits could be compared"
        elif compared.first is None:
            cell.result = "agree"
        else:
            self._differs(cell, setting, runs, compared)

    def _run(self, name: str, setting: Setting) -> Watched:
        reference = Reference(self._passes[name], setting.plan, setting.prompts)
        instance = dict(self.pair.sides)[name]
        run = Watched(instance, setting.plan, setting.prompts, reference, self.tolerance)
        run.run()
        return run

    def _differs(self, cell: Cell, setting: Setting, runs: dict[str, Watched], compared: Compared) -> None:
        own = {name: not run.differences for name, run in runs.items()}
        if not all(own.values()) and self._alike(setting):
            cell.result, cell.library = "own", next(name for name in LIBRARIES if not own[name])
            cell.reason = f"{cell.library} leaves its own single pass here, in which both agree"
            cell.evidence = self._evidence(compared, None, own)
            return
        if not all(own.values()) and self._as_in_one_pass(cell, own):
            return
        parting = self._parting(setting, own, compared)
        geometry = self.pair.torch.geometry
        cell.result, cell.codes = "differ", [CODE]
        cell.kind = meaning.kind_of(compared, parting)
        seen = meaning.seeing(LIBRARIES, own, compared, geometry)
        if compared.unlike and cell.kind != "visibility":
            cell.also, cell.also_library = "visibility", seen
        cell.library = seen if cell.kind == "visibility" else meaning.leaving(LIBRARIES, own)
        cell.evidence = self._evidence(compared, parting, own)
        cell.reason = sentence(compared, parting, LIBRARIES, cell.kind)

    def _as_in_one_pass(self, cell: Cell, own: dict[str, bool]) -> bool:
        """Tell a difference as one pass shows it, where a library departs from that pass besides."""
        # That pass itself ends with a token behind it, which may depart, too.
        if cell.scenario == LONGEST or (model := self.model).result != "differ":
            return False
        left = " and ".join(name for name in LIBRARIES if not own[name])
        cell.result, cell.codes = "differ", [CODE]
        cell.kind, cell.library = model.kind, model.library
        cell.also, cell.also_library = model.also, model.also_library
        cell.evidence = {**model.evidence, "own": own}
        cell.reason = f"in one pass: {model.reason}; besides, {left} leaves its own single pass here"
        return True

    @cached_property
    def model(self) -> Cell:
        """The cell of one pass longer than the window: what the two models make of the same tokens."""
        return self.cell(named(LONGEST))

    def _alike(self, setting: Setting) -> bool:
        """Whether both give the same logits in single passes of the setting's sequences."""
        for seq, history in histories(setting.plan).items():
            ids = setting.prompts[seq].of(history)
            (one, unit), (other, _) = (self._passes[name].of(ids) for name in LIBRARIES)
            if not float(np.abs(one - other).max(initial=0.0)) <= self.tolerance * unit:
                return False
        return True

    def _parting(self, setting: Setting, own: dict[str, bool], compared: Compared) -> Parting | None:
        """Where the first wrong forward parts. Cells of one family that look alike are traced once."""
        first = compared.first
        assert first is not None
        seen = meaning.other_keys(compared)
        alike = (*own.values(), seen.layer if seen is not None else None)
        if seen is not None and alike in self._traced:
            return self._traced[alike]

        def maker(name: str) -> Any:
            return lambda plan: Watched(
                dict(self.pair.sides)[name], plan, setting.prompts, None, self.tolerance
            )

        self._traced[alike] = find([maker(name) for name in LIBRARIES], setting.plan, first)
        return self._traced[alike]

    def _evidence(self, compared: Compared, parting: Parting | None, own: dict[str, bool]) -> dict[str, Any]:
        first = compared.first
        assert first is not None
        told: dict[str, Any] = {
            "step": first.step,
            "phase": first.phase,
            "seq": first.seq,
            "position": first.position,
            "wrong": len(compared.wrong),
            "margin": compared.margin,
            "own": own,
        }
        if parting is not None:
            told.update(
                layer=parting.layer, part=parting.part, end=parting.end, agreed=parting.agreed, by=parting.by
            )
        if (unlike := meaning.shown(compared)) is not None:
            sides = zip(LIBRARIES, (unlike.first, unlike.second), strict=True)
            told["query"] = {"layer": unlike.layer, "seq": unlike.seq, "position": unlike.position}
            told["seen"] = {name: list(seen[-LISTED:]) for name, seen in sides}
            told["keys"] = {TORCH: len(unlike.first), MLX: len(unlike.second)}
            wanted = meaning.meant(self.pair.torch.geometry, unlike)
            told["meant"] = list(wanted[-LISTED:]) if wanted is not None else None
            told["due"] = len(wanted) if wanted is not None else None
        return {name: value for name, value in told.items() if value is not None}


def _stopped(cell: Cell, library: str, error: Exception) -> None:
    """Raises the error again where it is this program's own."""
    if ours(error):
        raise error
    whole = " ".join(str(error).split())
    refused, said = refuses(error, whole), whole[:TOLD]
    cell.result, cell.library = ("refused" if refused else "crash"), library
    cell.reason = said if refused else f"{kind(error)}: {said}"


def compare_family(
    family: str, scenarios: Iterable[Scenario], seed: int = 0, device: str | None = None
) -> Iterator[Row | Cell]:
    """The cells of one family, and at the end its row. A family without a pair has a row and no cells.

    Raises:
        Exception: whatever this program itself raised, and not the libraries under its hands.
    """
    started = time.perf_counter()
    pair = convert.tiny(family, seed, device)
    if isinstance(pair, convert.Apart):
        yield apart(family, pair, time.perf_counter() - started)
        return
    try:
        session = Session(pair, seed)
    except BrokenPassError as error:
        yield Row(family=family, result="crash", library=error.library, reason=str(error))
        return
    results = []
    for scenario in scenarios:
        cell = as_saved(session) if scenario is SAVED else session.cell(scenario)
        results.append(cell)
        yield cell
    yield row_of(family, results, session.noise, time.perf_counter() - started)


def as_saved(session: Session) -> Cell:
    """The very folder that transformers 5 writes, which nobody has put into the published form."""
    started = time.perf_counter()
    family = session.pair.family
    pair = convert.of_instance(session.pair.torch, family, form="saved")
    if isinstance(pair, convert.Apart):
        result: Result = "crash" if pair.kind == "broken" else "refused"
        cell = Cell(family=family, scenario=SAVED.name, result=result, library=pair.library, reason=str(pair))
    else:
        cell = _read(pair, session.seed)
    cell.seconds = time.perf_counter() - started
    return cell


def _read(pair: Pair, seed: int) -> Cell:
    try:
        cell = Session(pair, seed).cell(named(LONGEST))
    except BrokenPassError as error:
        cell = Cell(family=pair.family, scenario="", result="crash", library=error.library, reason=str(error))
    cell.scenario = SAVED.name
    return cell


def _floor(library: str, instance: Instance, seed: int) -> float:
    """Raises BrokenPassError for whatever the library throws in a short pass."""
    try:
        return noises.floor(instance, seed)
    except BaseException as wild:  # noqa: BLE001  a family may fail in any way
        error = tamed(wild)
        said = " ".join(str(error).split())[:TOLD]
        raise BrokenPassError(library, f"the shortest pass: {kind(error)}: {said}") from error


def apart(family: str, why: convert.Apart, seconds: float) -> Row:
    """The row of a family without a pair."""
    results: dict[str, RowResult] = {
        "lacks": "lacks",
        "refuses": "refused",
        "apart": "apart",
        "broken": "crash",
    }
    result = results[why.kind]
    return Row(family=family, result=result, library=why.library, reason=str(why), seconds=seconds)
