"""Timing by turns, so that a slow moment of the machine hits every subject alike."""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple


class Result(NamedTuple):
    """One line of the table."""

    what: str
    measured: str
    ratio: float | None
    goal: str
    good: bool | None


def by_turns(
    subjects: Mapping[str, Callable[[], Any]], rounds: int, clock: Callable[[], float] = time.perf_counter
) -> dict[str, float]:
    """The median seconds of each subject; the first round warms up and is not counted.

    `time.process_time` as the clock leaves out what a busy machine spends on others.
    """
    taken: dict[str, list[float]] = {name: [] for name in subjects}
    for turn in range(rounds + 1):
        for name, run in subjects.items():
            gc.collect()
            start = clock()
            run()
            if turn:
                taken[name].append(clock() - start)
    return {name: statistics.median(times) for name, times in taken.items()}


def at_most(what: str, measured: str, ratio: float, limit: float) -> Result:
    """A ratio that should stay small."""
    return Result(what, measured, ratio, f"<= {limit:g}", ratio <= limit)


def at_least(what: str, measured: str, ratio: float, limit: float) -> Result:
    """A ratio that should be large."""
    return Result(what, measured, ratio, f">= {limit:g}", ratio >= limit)


def fact(what: str, measured: str) -> Result:
    """A number without a goal."""
    return Result(what, measured, None, "", None)
