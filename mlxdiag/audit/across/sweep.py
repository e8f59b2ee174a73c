"""Runs a comparison of all families: who works on what, and what a dead worker means."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from mlxdiag.audit.across import tasks
from mlxdiag.audit.across.causes import Causes, group
from mlxdiag.audit.across.cell import SAVED, Across, Cell, Row, RowResult, row_of
from mlxdiag.audit.engine.death import UNFINISHED, failed, message, where
from mlxdiag.audit.engine.messages import Ended, Item
from mlxdiag.audit.engine.names import pick
from mlxdiag.audit.engine.pool import LIMIT, Pool, ending
from mlxdiag.audit.engine.table import usual
from mlxdiag.audit.faults.causes import Locator
from mlxdiag.models.convert.pair import MLX, TORCH

BUILDING = "building the model"
HOPELESS = 2
"""Workers of one family that may die in a row without a cell, before the rest of it is not tried."""


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """What to compare and how."""

    families: tuple[str, ...] = ()
    """Names or patterns; empty: every family of either library."""
    scenarios: tuple[str, ...]
    jobs: int = 1
    seed: int = 0
    device: str | None = None
    limit: float = LIMIT


class Progress(msgspec.Struct, frozen=True):
    """Told after every family."""

    done: int
    total: int
    row: Row


Watcher = Callable[[Progress], None]


def scenarios() -> tuple[str, ...]:
    """Those that both libraries can run, in the order of the table."""
    held = set(usual(TORCH))
    return (*(name for name in usual(MLX) if name in held), SAVED.name)


def look(device: str | None = None) -> tuple[str, ...]:
    """Every family of either library. Raises as `run` does."""
    with Pool(tasks.PRELOAD, jobs=1) as pool:
        (value,) = pool.call(tasks.DESCRIBE, device)
    held = msgspec.convert(value, tasks.Described)
    return tuple(sorted({*held.both, *held.apart}))


def run(wanted: Wanted, *, causes: Causes, watch: Watcher | None = None) -> Across:
    """Compare; equal arguments give equal cells, whatever the number of jobs.

    Raises:
        UsageError: a family that neither library has.
        UnjudgedError: a library cannot be imported, or the device does not compute.
    """
    start = time.monotonic()
    with Pool(tasks.PRELOAD, jobs=wanted.jobs) as pool:
        (value,) = pool.call(tasks.DESCRIBE, wanted.device)
        held = msgspec.convert(value, tasks.Described)
        chosen = pick("family", tuple(sorted({*held.both, *held.apart})), wanted.families)
        sweep = Sweep(pool, wanted, [name for name in chosen if name in held.both], watch)
        sweep.run()
    rows = [_apart(name, *held.apart[name]) for name in chosen if name in held.apart]
    rows = sorted([*rows, *sweep.rows.values()], key=lambda row: row.family)
    locators = {name: Locator(Path(root)) for name, root in held.roots.items()}
    cells, differences, notes = group(sweep.sorted_cells(), causes, locators)
    return Across(
        libraries=held.libraries,
        device=held.device,
        seed=wanted.seed,
        asked=sorted(wanted.families),
        scenarios=list(wanted.scenarios),
        rows=rows,
        cells=cells,
        differences=differences,
        notes=notes,
        seconds=time.monotonic() - start,
    )


def _apart(family: str, library: str, why: str) -> Row:
    return Row(family=family, result="lacks" if library else "apart", library=library, reason=why)


class Sweep:
    """One pass over the families that both libraries have."""

    def __init__(self, pool: Pool, wanted: Wanted, families: list[str], watch: Watcher | None) -> None:
        self.pool = pool
        self.wanted = wanted
        self.watch = watch
        self.todo = {family: list(wanted.scenarios) for family in families}
        self.cells: dict[tuple[str, str], Cell] = {}
        self.rows: dict[str, Row] = {}
        self.at_work: dict[int, str] = {}
        self.futile: dict[str, int] = {}

    def run(self) -> None:
        """Until every family has its row."""
        for family in self.todo:
            self._go_on(family)
        for event in self.pool.events():
            self._heard(event)

    def sorted_cells(self) -> list[Cell]:
        """Families in order, and scenarios within them."""
        order = {name: place for place, name in enumerate(self.wanted.scenarios)}
        return sorted(self.cells.values(), key=lambda cell: (cell.family, order[cell.scenario]))

    def _go_on(self, family: str) -> None:
        wanted = self.wanted
        task = self.pool.submit(
            tasks.COMPARE, family, self.todo[family], wanted.seed, wanted.device, limit=wanted.limit
        )
        self.at_work[task] = family

    def _heard(self, event: Item | Ended) -> None:
        family = self.at_work[event.id]
        if isinstance(event, Item):
            self.futile[family] = 0
            if "cell" in event.value:
                self._finish(msgspec.convert(event.value["cell"], Cell))
            else:
                self._row(msgspec.convert(event.value["row"], Row))
        elif family not in self.rows:
            self._lost(family, event)

    def _lost(self, family: str, event: Ended) -> None:
        """A worker ended without its row: the cell that it was at is lost, and the rest is tried again."""
        reason = self._why(event)
        self.futile[family] = self.futile.get(family, 0) + 1
        if not self.cells_of(family) and self.futile[family] >= HOPELESS:
            self.todo[family] = []
            ours = reason.startswith(UNFINISHED)
            result: RowResult = "unjudged" if ours else "crash"
            self._row(Row(family=family, result=result, reason=f"{BUILDING}: {reason}"))
            return
        if not self.todo[family]:
            self._row(_row_of(family, self.cells_of(family)))
            return
        if self.cells_of(family) or self.futile[family] >= HOPELESS:
            crashed = bool(event.signal or event.abrupt or event.late)
            self._finish(
                Cell(
                    family=family,
                    scenario=self.todo[family][0],
                    result="crash" if crashed else "skipped",
                    reason=reason,
                    where=where(event.stderr),
                )
            )
        if self.todo[family]:
            self._go_on(family)
        else:
            self._row(_row_of(family, self.cells_of(family)))

    def _why(self, event: Ended) -> str:
        if event.late:
            return f"no answer within {self.wanted.limit:g} s, so the process was killed"
        if event.signal or event.abrupt:
            said = message(event.stderr)
            died = ending(event.code if event.abrupt else -event.signal)
            return f"the process {died}" + (f": {said}" if said else "")
        return failed("", "", "", event).reason

    def cells_of(self, family: str) -> list[Cell]:
        """Cells of one family so far."""
        return [cell for (name, _), cell in self.cells.items() if name == family]

    def _finish(self, cell: Cell) -> None:
        if cell.scenario in self.todo[cell.family]:
            self.todo[cell.family].remove(cell.scenario)
        self.cells[cell.family, cell.scenario] = cell

    def _row(self, row: Row) -> None:
        cells = self.cells_of(row.family)
        # Cells that an earlier worker sent are not among those that this row was made of.
        self.rows[row.family] = _row_of(row.family, cells, row) if cells else row
        if self.watch is not None:
            self.watch(Progress(len(self.rows), len(self.todo), self.rows[row.family]))


def _row_of(family: str, cells: list[Cell], row: Row | None = None) -> Row:
    noise: dict[str, float] = row.noise if row is not None else {}
    return row_of(family, cells, noise, row.seconds if row is not None else 0.0)
