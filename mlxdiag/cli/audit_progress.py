"""Progress of an audit on standard error: a bar on a terminal, else a line for every tenth."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from mlxdiag.cli.streams import complain

if TYPE_CHECKING:
    from mlxdiag.audit.engine.run import Progress, Watcher

PARTS = 10
SEARCHING = "looking for the smallest schedules"


@contextmanager
def shown_progress() -> Iterator[Watcher]:
    """What to call after every cell."""
    if sys.stderr.isatty():
        with _bar() as watch:
            yield watch
    else:
        yield Lines().watch


class Lines:
    """A line for every tenth of the cells."""

    def __init__(self) -> None:
        self.told = 0
        self.wrong = 0

    def watch(self, progress: Progress) -> None:
        self.wrong += progress.cell.wrong
        part = PARTS * progress.done // progress.total
        if part > self.told:
            self.told = part
            complain(f"{progress.done} of {progress.total} cells, {self.wrong} wrong")
        if progress.done == progress.total and self.wrong:
            complain(SEARCHING)


@contextmanager
def _bar() -> Iterator[Watcher]:
    from rich import progress as bars
    from rich.console import Console

    wrong = 0
    columns = (
        bars.BarColumn(),
        bars.MofNCompleteColumn(),
        bars.TextColumn("{task.fields[wrong]} wrong"),
        bars.TimeRemainingColumn(),
        bars.TextColumn("{task.description}", markup=False),
    )
    with bars.Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("importing the library", total=None, wrong=0)

        def watch(progress: Progress) -> None:
            nonlocal wrong
            done, total, cell = progress.done, progress.total, progress.cell
            wrong += cell.wrong
            bar.update(
                task,
                completed=done,
                total=total,
                wrong=wrong,
                description=SEARCHING if done == total and wrong else f"{cell.family}/{cell.scenario}",
            )

        yield watch
