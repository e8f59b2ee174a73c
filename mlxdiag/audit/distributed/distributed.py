"""The cells of families that are split over two processes: tensor parallel and pipeline, on the loopback.

Run apart from the other scenarios. Both ranks' logits are compared, at every position, with the same schedule
in one process. One launch works through many families; where one of them breaks it, another goes on with the
rest.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

from mlxdiag.audit.cell import LIBRARY, Cell
from mlxdiag.audit.distributed import cells
from mlxdiag.audit.distributed.launch import RANKS, Launch
from mlxdiag.audit.distributed.ring.launch import RingLaunch
from mlxdiag.audit.distributed.told import PIPELINE, TENSOR, Told
from mlxdiag.audit.distributed.torchrun.launch import TorchrunLaunch

LIMIT = 1800.0
"""Seconds for all families together."""

LAUNCHES: dict[str, type[Launch]] = {"mlx-lm": RingLaunch, "transformers": TorchrunLaunch}
"""By library."""
KINDS = (TENSOR, PIPELINE)

Words = dict[str, list[Told | None]]
"""By item: the last word of each rank."""


def audit_distributed(
    families: Sequence[str],
    seed: int = 0,
    *,
    library: str = LIBRARY,
    scenarios: Sequence[str] = (),
    quiet: float | None = None,
    limit: float = LIMIT,
    command: Sequence[str] = (),
) -> Iterator[Cell]:
    """A cell for each family and kind of splitting, as they are finished.

    Args:
        scenarios: none means both kinds of splitting.
        quiet: seconds without a word from either rank after which both are killed; None: the launch's own.
        limit: seconds after which the families that are left are skipped, with that reason.
        command: the program of a rank, for tests.
    """
    kind = LAUNCHES[library]
    todo = [f"{family}:{how}" for family in families for how in scenarios or KINDS]
    if (why := kind.missing()) is not None:
        yield from (cells.skipped(library, item, why) for item in todo)
        return
    deadline = time.monotonic() + limit
    while todo:
        if time.monotonic() > deadline:
            why = f"the time limit of {limit:g} s was reached before it"
            yield from (cells.skipped(library, item, why) for item in todo)
            return
        with kind(todo, seed, command) as launch:
            words: Words = {}
            started = time.monotonic()
            for rank, told in launch.told(quiet):
                item = f"{told.family}:{told.kind}"
                words.setdefault(item, [None] * RANKS)[rank] = told
                if all(word is not None and word.final for word in words[item]):
                    now = time.monotonic()
                    yield cells.told(library, item, words[item], now - started)
                    started = now
                    todo.remove(item)
                if time.monotonic() > deadline:
                    break
            else:
                if todo:
                    yield from _broken(library, todo, words, launch)


def _broken(library: str, todo: list[str], words: Words, launch: Launch) -> Iterator[Cell]:
    """The launch ended before its work: the first item that is left is to blame, or all of them."""
    if todo[0] not in words:
        yield from (cells.unstarted(library, item, launch) for item in todo)
        todo.clear()
        return
    item = todo.pop(0)
    yield cells.broken(library, item, words[item], launch)
