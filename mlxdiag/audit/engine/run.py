"""Runs an audit: which cells there are, who works on what, and what a dead worker means."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import nullcontext
from pathlib import Path

import msgspec

from mlxdiag.audit.cell import LIBRARY, Audit, Cell
from mlxdiag.audit.engine.death import crashed, failed
from mlxdiag.audit.engine.journal import Journal, Terms
from mlxdiag.audit.engine.messages import Ended, Item
from mlxdiag.audit.engine.names import pick
from mlxdiag.audit.engine.pool import HERE, LIMIT, Pool, Site
from mlxdiag.audit.engine.table import APART
from mlxdiag.audit.engine.tasks import Described
from mlxdiag.audit.faults import faults, minimal
from mlxdiag.audit.faults.causes import Causes, Locator
from mlxdiag.errors import UsageError

PATIENCE = 660.0
"""Seconds without a cell from models split over processes, which have limits of their own below it."""
HOPELESS = 3
"""Workers of one family that may die in a row without a cell, before the rest of it is not tried."""


class Parts(msgspec.Struct, frozen=True, kw_only=True):
    """The calls that workers make. Tests put in others."""

    preload: str = "mlxdiag.audit.engine.tasks:preload"
    describe: str = "mlxdiag.audit.engine.tasks:describe"
    audit: str = "mlxdiag.audit.engine.tasks:audit"
    apart: str = "mlxdiag.audit.engine.tasks:audit_apart"
    smallest: str = minimal.SMALLEST
    script: str = minimal.SCRIPT


PARTS = {
    LIBRARY: Parts(),
    "transformers": Parts(
        preload="mlxdiag.audit.engine.tasks:preload_transformers",
        describe="mlxdiag.audit.engine.tasks:describe_transformers",
        audit="mlxdiag.audit.engine.tasks:audit_transformers",
        apart="mlxdiag.audit.engine.tasks:audit_apart_transformers",
    ),
}
"""By library."""


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """What to audit and how."""

    library: str = LIBRARY
    families: tuple[str, ...] = ()
    """Names or patterns; empty: every family of the library."""
    scenarios: tuple[str, ...]
    """Names, in the order of the table."""
    jobs: int = 1
    shard: tuple[int, int] | None = None
    """(i, n), counted from 1: every n-th family from the i-th on."""
    seed: int = 0
    device: str | None = None
    resume: Path | None = None
    limit: float = LIMIT
    """Seconds that one cell may take."""
    site: Site = HERE
    shrink: bool = True
    """Look for each fault's smallest schedule."""
    repros: Path | None = None
    """A folder for a standalone script of each fault."""


class Progress(msgspec.Struct, frozen=True):
    """Told after every cell."""

    done: int
    total: int
    cell: Cell


Watcher = Callable[[Progress], None]


def run(
    wanted: Wanted,
    *,
    causes: Causes,
    watch: Watcher | None = None,
    parts: Parts | None = None,
) -> Audit:
    """Audit; equal arguments give equal cells and faults, whatever the number of jobs.

    Raises:
        UsageError: a family that the library lacks, or a shard without a family.
        UnjudgedError: the library cannot be imported, or the device does not compute.
        UnreadableError: a stale file to resume from.
    """
    start = time.monotonic()
    parts = parts or PARTS[wanted.library]
    with Pool(parts.preload, jobs=wanted.jobs, site=wanted.site) as pool:
        held = describe(pool, wanted.device, parts)
        chosen = choose(held.families, wanted.families, wanted.shard)
        sweep = Sweep(pool, wanted, parts, chosen, watch)
        cells = sweep.cells(_terms(wanted, held))
        source = Locator(Path(held.root))
        judged, grouped = faults.group(cells, causes, source)
        if wanted.shrink:
            grouped = minimal.shrunk(pool, grouped, judged, wanted.seed, parts.smallest)
        notes = faults.stale(causes, source) + sweep.notes
        if wanted.repros is not None:
            grouped, more = minimal.scripts(pool, grouped, wanted.repros, wanted.seed, parts.script)
            notes += more
    noise = {cell.family: cell.noise for cell in judged if cell.noise}
    return Audit(
        libraries=held.libraries,
        sources=held.sources,
        device=held.device,
        seed=wanted.seed,
        shard=wanted.shard,
        asked=sorted(wanted.families),
        families=len(held.families),
        cells=[msgspec.structs.replace(cell, noise=0.0) for cell in judged],
        faults=grouped,
        noise=noise,
        notes=notes,
        seconds=time.monotonic() - start,
    )


def look(wanted: Wanted, parts: Parts | None = None) -> Described:
    """What the library holds, without auditing it. Raises as `run` does."""
    parts = parts or PARTS[wanted.library]
    with Pool(parts.preload, jobs=1, site=wanted.site) as pool:
        return describe(pool, wanted.device, parts)


def describe(pool: Pool, device: str | None, parts: Parts) -> Described:
    """What the library holds, asked of a worker."""
    (value,) = pool.call(parts.describe, device)
    return msgspec.convert(value, Described)


def choose(known: Sequence[str], asked: Sequence[str], shard: tuple[int, int] | None) -> tuple[str, ...]:
    """The families of this shard, sorted.

    Families are dealt out in turn, so that shards differ by one at most and neighbours in the alphabet,
    which are often alike, lie apart.

    Raises:
        UsageError: a name that is not known, or more shards than families.
    """
    families = sorted(pick("family", known, asked))
    if shard is None:
        return tuple(families)
    index, count = shard
    if count > len(families):
        raise UsageError(f"--shard {index}/{count}: only {len(families)} to share out")
    return tuple(families[index - 1 :: count])


def _terms(wanted: Wanted, held: Described) -> Terms:
    return Terms(
        libraries=held.libraries,
        sources=held.sources,
        device=held.device,
        seed=wanted.seed,
        scenarios=list(wanted.scenarios),
    )


class Sweep:
    """One pass over the families; keeps which cells are still to come."""

    def __init__(
        self,
        pool: Pool,
        wanted: Wanted,
        parts: Parts,
        families: Sequence[str],
        watch: Watcher | None,
    ) -> None:
        self.pool = pool
        self.wanted = wanted
        self.parts = parts
        self.watch = watch
        usual = [name for name in wanted.scenarios if name not in APART]
        self.todo = {family: list(usual) for family in families}
        self.apart = [name for name in wanted.scenarios if name in APART]
        self.total = len(families) * len(wanted.scenarios)
        self.done: dict[tuple[str, str], Cell] = {}
        self.futile: dict[str, int] = {}
        self.at_work: dict[int, str] = {}
        self.notes: list[str] = []

    def cells(self, terms: Terms) -> list[Cell]:
        """Run what no earlier run finished; all cells, families in order and scenarios within them."""
        journal = Journal(self.wanted.resume, terms) if self.wanted.resume is not None else None
        with journal or nullcontext():
            for cell in journal.cells if journal else ():
                if cell.family in self.todo and cell.scenario in self.wanted.scenarios:
                    self._finish(cell)
            for fresh in self._run():
                if journal:
                    journal.add(fresh)
        if journal and journal.lost:
            self.notes.append(f"--resume: {journal.path} lacks finished cells: {journal.lost}")
        order = {name: place for place, name in enumerate(self.wanted.scenarios)}
        return sorted(self.done.values(), key=lambda cell: (cell.family, order[cell.scenario]))

    def _run(self) -> Iterator[list[Cell]]:
        """Cells as they are finished. What splits a model over processes has the machine to itself."""
        for family in self.todo:
            self._go_on(family)
        for event in self.pool.events():
            yield list(self._heard(event))
        missing = self._apart_missing()
        if missing:
            families = sorted({family for family, _ in missing})
            self.pool.submit(self.parts.apart, families, self.apart, self.wanted.seed, limit=PATIENCE)
        for event in self.pool.events():
            yield list(self._heard_apart(event))

    def _apart_missing(self) -> list[tuple[str, str]]:
        pairs = ((family, name) for family in self.todo for name in self.apart)
        return [pair for pair in pairs if pair not in self.done]

    def _heard_apart(self, event: Item | Ended) -> Iterator[Cell]:
        if isinstance(event, Ended):
            for family, name in self._apart_missing():
                yield self._finish(failed(self.wanted.library, family, name, event))
            return
        cell = msgspec.convert(event.value, Cell)
        if (cell.family, cell.scenario) not in self.done:
            yield self._finish(cell)

    def _go_on(self, family: str) -> None:
        if rest := self.todo[family]:
            task = self.pool.submit(
                self.parts.audit,
                family,
                rest,
                self.wanted.seed,
                self.wanted.device,
                limit=self.wanted.limit,
            )
            self.at_work[task] = family

    def _heard(self, event: Item | Ended) -> Iterator[Cell]:
        """The cells that an event finishes."""
        family = self.at_work[event.id]
        if isinstance(event, Item):
            self.futile[family] = 0
            cell = msgspec.convert(event.value, Cell)
            yield self._finish(cell)
            return
        if self.todo[family]:
            yield self._finish(self._lost(family, event))
            self.futile[family] = self.futile.get(family, 0) + 1
            if self.futile[family] >= HOPELESS:
                yield from self._give_up(family)
            self._go_on(family)

    def _lost(self, family: str, event: Ended) -> Cell:
        """The cell that a worker was at when it ended: judged cells come in the order of the scenarios."""
        scenario = self.todo[family][0]
        if event.signal or event.abrupt or event.late:
            return crashed(self.wanted.library, family, scenario, event, self.wanted.limit)
        return failed(self.wanted.library, family, scenario, event)

    def _give_up(self, family: str) -> Iterable[Cell]:
        reason = f"not tried: {HOPELESS} workers of this family in a row died without a verdict"
        for scenario in list(self.todo[family]):
            yield self._finish(
                Cell(
                    library=self.wanted.library,
                    family=family,
                    scenario=scenario,
                    result="skipped",
                    reason=reason,
                )
            )

    def _finish(self, cell: Cell) -> Cell:
        if cell.scenario in self.todo[cell.family]:
            self.todo[cell.family].remove(cell.scenario)
        self.done[cell.family, cell.scenario] = cell
        if self.watch is not None:
            self.watch(Progress(len(self.done), self.total, cell))
        return cell
