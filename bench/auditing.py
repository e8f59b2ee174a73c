"""Where an audit's time goes: the whole of it by phase, and one cell by part.

A whole audit takes minutes; `--audit-families gemma3_text llama` times a part of it.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from typing import Any
from unittest import mock

from bench.clock import Result, at_most, fact
from mlxdiag.audit.engine import run
from mlxdiag.audit.faults import causes
from mlxdiag.audit.schedules.scenarios import NAMES, SCENARIOS

GOAL_CELL = 0.050
GOAL_WHOLE = 300.0
SAMPLE = ("gemma3_text", "llama", "gpt_oss", "mamba2")
"""Families of unlike kinds, whose cells are taken apart."""
PARTS = {
    "prepare": "schedule, plan and tokens",
    "Reference": "single passes to compare with",
    "Trial": "the schedule on the model, under the probe",
    "inspect_trace": "the rules",
    "_where": "once more, to find the line of what is wrong",
}
"""Names in the judge. What one spends in another counts there alone, so that the times add up."""


def measure(families: Sequence[str] = ()) -> Iterator[Result]:
    """The whole audit on two workers, then cells taken apart."""
    yield from _whole(tuple(families))
    yield from _parts()


def _whole(families: tuple[str, ...]) -> Iterator[Result]:
    began = time.monotonic()
    ends: list[float] = []
    spent: list[float] = []

    def watch(progress: run.Progress) -> None:
        ends.append(time.monotonic() - began)
        if progress.cell.judged:
            spent.append(progress.cell.seconds)

    wanted = run.Wanted(families=families, scenarios=NAMES, jobs=2)
    audit = run.run(wanted, causes=causes.load(), watch=watch)
    whole = time.monotonic() - began
    median = statistics.median(spent)
    yield at_most(
        "audit: the whole, 2 workers",
        f"{whole:.0f} s, {len(audit.cells)} cells of {len({c.family for c in audit.cells})} families",
        whole / GOAL_WHOLE,
        1,
    )
    yield at_most("audit: median cell that was judged", f"{1000 * median:.0f} ms", median / GOAL_CELL, 1)
    cells = ends[-1] - ends[0]
    busy = sum(spent) / 2
    yield fact("audit: importing the library, first cell", f"{ends[0]:.1f} s")
    yield fact("audit: cells, wall", f"{cells:.1f} s")
    yield fact("audit: of these in cells (half their sum)", f"{busy:.1f} s; the rest builds models")
    yield fact("audit: smallest schedules", f"{whole - ends[-1]:.1f} s for {len(audit.faults)} faults")


def _parts() -> Iterator[Result]:
    """In this process, in processor time, which leaves out what a busy machine spends on others."""
    os.environ.setdefault("MLX_DISABLE_COMPILE", "1")
    from mlxdiag.audit.judge import judge

    taken = dict.fromkeys(PARTS, 0.0)
    with ExitStack() as patches:
        for name in PARTS:
            held = getattr(judge, name)
            owner, attribute = (held, "run") if name == "Trial" else (judge, name)
            timed = _timed(getattr(owner, attribute), taken, name)
            patches.enter_context(mock.patch.object(owner, attribute, timed))
        cells = [cell for family in SAMPLE for cell in judge.audit_family(family, SCENARIOS) if cell.judged]
    for name, told in PARTS.items():
        yield fact(f"a cell: {told}", f"{1000 * taken[name] / len(cells):.1f} ms")


def _timed(call: Callable[..., Any], taken: dict[str, float], name: str) -> Callable[..., Any]:
    def timed(*arguments: Any, **named: Any) -> Any:
        before, others = time.process_time(), sum(taken.values())
        try:
            return call(*arguments, **named)
        finally:
            inner = sum(taken.values()) - others
            taken[name] += time.process_time() - before - inner

    return timed
