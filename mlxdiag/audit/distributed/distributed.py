"""The cells of families that are split over two processes: tensor parallel and pipeline, on the loopback.

Run apart from the other scenarios. Both ranks' logits are compared, at every position, with the same schedule
in one process. One launch works through many families; where one of them breaks it, another goes on with the
rest.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator, Sequence

import msgspec

from mlxdiag.audit.cell import LIBRARY, Cell
from mlxdiag.audit.distributed.launch import RANKS, Launch
from mlxdiag.audit.distributed.rank import PIPELINE, SCHEDULES, TENSOR, Difference, Told
from mlxdiag.audit.engine.death import message, where
from mlxdiag.audit.engine.pool import last_line
from mlxdiag.audit.judge.reading import LISTED, REFUSALS, crash_code

QUIET = 30.0
"""Seconds without a word from either rank after which they hang."""
LIMIT = 600.0
"""Seconds for all families together."""

LOST = "connection to a peer was lost"
"""What the ring says in the rank that is left alone."""

Words = dict[str, list[Told | None]]
"""By item: the last word of each rank."""


def audit_distributed(
    families: Sequence[str] = (),
    seed: int = 0,
    *,
    scenarios: Sequence[str] = (TENSOR, PIPELINE),
    quiet: float = QUIET,
    limit: float = LIMIT,
    command: Sequence[str] | None = None,
) -> Iterator[Cell]:
    """A cell for each family and kind of splitting, as they are finished.

    Args:
        families: none means every family of the library.
        quiet: seconds without a word from either rank after which both are killed.
        limit: seconds after which the families that are left are skipped, with that reason.
        command: the program of a rank, for tests.
    """
    if not families:
        from mlxdiag.models.mlx import zoo

        families = zoo.modules()
    todo = [f"{family}:{kind}" for family in families for kind in scenarios]
    deadline = time.monotonic() + limit
    while todo:
        if time.monotonic() > deadline:
            yield from (
                _skipped(item, f"the time limit of {limit:g} s was reached before it") for item in todo
            )
            return
        with Launch(todo, seed, command) as launch:
            words: Words = {}
            started = time.monotonic()
            for rank, told in launch.told(quiet):
                item = f"{told.family}:{told.kind}"
                words.setdefault(item, [None] * RANKS)[rank] = told
                if all(word is not None and word.state not in ("begun", "failed") for word in words[item]):
                    now = time.monotonic()
                    yield cell(item, words[item], now - started)
                    started = now
                    todo.remove(item)
                if time.monotonic() > deadline:
                    break
            else:
                if todo:
                    yield from _broken(todo, words, launch)


def _broken(todo: list[str], words: Words, launch: Launch) -> Iterator[Cell]:
    """The launch ended before its work: the first item that is left is to blame, or all of them."""
    if todo[0] not in words:
        said = last_line(launch.stderr(0)) or last_line(launch.stderr(1)) or "they said nothing"
        yield from (_skipped(item, f"the ranks could not be started: {said}") for item in todo)
        todo.clear()
        return
    item = todo.pop(0)
    told = [
        (rank, word) for rank, word in enumerate(words[item]) if word is not None and word.state == "failed"
    ]
    own = [(rank, word) for rank, word in told if LOST not in word.reason]
    if not own and launch.killed() is not None:
        yield _died(item, launch)
    elif told:
        yield _refused_or_crashed(item, *(own or told)[0])
    else:
        yield _died(item, launch)


def cell(item: str, told: Sequence[Told | None], seconds: float = 0.0) -> Cell:
    """The cell of an item of which every rank has said how it ended."""
    words = [word for word in told if word is not None]
    made = _cell(item, seconds)
    other = next((word for word in words if word.state != "done"), None)
    if other is not None:
        made.result = "unsupported" if other.state == "unsupported" else "skipped"
        made.reason = other.reason
        return made
    compared = sum(difference.compared for word in words for difference in word.differences)
    made.judged = {"parity": compared}
    if not compared:
        made.reason = "no position was compared"
        return made
    wrong = [
        (rank, found) for rank, word in enumerate(words) for found in word.differences if found.positions
    ]
    if not wrong:
        made.result = "pass"
        return made
    made.result, made.codes, made.oracles = "fail", ["MD402"], ["parity"]
    rank, worst = max(wrong, key=lambda pair: pair[1].max_abs)
    names = ", ".join(name for name in SCHEDULES if any(found.schedule == name for _, found in wrong))
    made.reason = (
        f"{names}: the logits of rank {rank} differ from those of one process by up to {worst.max_abs:.3g}, "
        f"first at position {wrong[0][1].positions[0]} (tolerance {worst.tolerance:.2g})"
    )
    made.evidence = evidence(rank, worst)
    return made


def evidence(rank: int, found: Difference) -> dict[str, object]:
    """As `Cell.evidence`, with the rank and the pieces that the sequence was fed in."""
    return {
        "rank": rank,
        "schedule": found.schedule,
        "rows": SCHEDULES[found.schedule][0],
        "pieces": list(SCHEDULES[found.schedule][1]),
        "positions": found.positions[:LISTED],
        "first": found.positions[0],
        "max_abs": found.max_abs,
        "tolerance": found.tolerance,
        "margin": found.margin,
    }


def _refused_or_crashed(item: str, rank: int, word: Told) -> Cell:
    made = _cell(item)
    made.where = word.where
    made.reason = f"rank {rank}, {word.during}: {word.error}: {word.reason}"
    clean = word.error in ("ValueError", "NotImplementedError") and word.during == "splitting"
    if clean and (REFUSALS.search(word.reason) or "divi" in word.reason):
        made.result = "unsupported"
    else:
        made.result, made.codes = "crash", [crash_code(word.reason)]
    return made


def _died(item: str, launch: Launch) -> Cell:
    """No rank could say why it stopped: it was killed from inside, or both wait for ever."""
    made = _cell(item)
    made.result, made.codes = "crash", ["MD902"]
    dead = launch.killed() or launch.ended()
    if dead is None:
        made.reason = "neither rank said anything more: they wait for each other"
        return made
    rank, code = dead
    name = signal.Signals(-code).name if code < 0 else f"status {code}"
    stderr = launch.stderr(rank)
    made.reason = f"rank {rank} ended with {name}: {message(stderr)}".rstrip(": ")
    made.where = where(stderr)
    return made


def _skipped(item: str, reason: str) -> Cell:
    return msgspec.structs.replace(_cell(item), reason=reason)


def _cell(item: str, seconds: float = 0.0) -> Cell:
    family, kind = item.rsplit(":", 1)
    return Cell(library=LIBRARY, family=family, scenario=kind, result="skipped", seconds=seconds)
