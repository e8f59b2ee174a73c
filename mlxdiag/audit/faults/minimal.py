"""Finds each fault's smallest schedule, in workers, and writes the standalone scripts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from mlxdiag.audit.cell import Cell, Fault
from mlxdiag.audit.engine.messages import Item
from mlxdiag.audit.engine.pool import Pool
from mlxdiag.audit.faults.faults import MOST_POSITIONS, representatives
from mlxdiag.audit.faults.script import Script
from mlxdiag.traces.reader import parse
from mlxdiag.traces.types import FORWARD_PHASES, Entry

LIMIT = 180.0
"""Seconds that one search, or the writing of one script, may take."""
TURNS = 6
"""Cells of a fault from which a search may begin."""
SMALLEST = "mlxdiag.audit.faults.smallest:smallest"
SCRIPT = "mlxdiag.audit.faults.script:script"


def shrunk(
    pool: Pool, faults: Sequence[Fault], cells: Sequence[Cell], seed: int, call: str = SMALLEST
) -> list[Fault]:
    """The faults with their smallest schedules; the shortest failing one where no search succeeds.

    A search fails where a schedule was wrong only beside the longer passes of others, as of a model that sees
    the future: then the next cell may show the same by itself.
    """
    starts = {fault.id: representatives(fault, cells) for fault in faults}
    found: dict[str, Cell] = {}
    for turn in range(TURNS):
        asked = {
            pool.submit(call, msgspec.to_builtins(known[turn]), seed, limit=LIMIT): id
            for id, known in starts.items()
            if id not in found and turn < len(known)
        }
        for event in pool.events() if asked else ():
            if isinstance(event, Item):
                found[asked[event.id]] = msgspec.convert(event.value, Cell)
    return [_with_schedule(fault, found.get(fault.id, starts[fault.id][0])) for fault in faults]


def scripts(
    pool: Pool, faults: Sequence[Fault], directory: Path, seed: int, call: str = SCRIPT
) -> tuple[list[Fault], list[str]]:
    """The faults with their scripts, each run once; a note for each missing or not showing its fault."""
    whole = str(directory.absolute())
    asked = {
        pool.submit(call, msgspec.to_builtins(fault), whole, seed, limit=LIMIT): fault.id for fault in faults
    }
    made = {fault.id: Script(said="its worker ended before it was done") for fault in faults}
    for event in pool.events():
        if isinstance(event, Item):
            made[asked[event.id]] = msgspec.convert(event.value, Script)
    notes = [note for fault in faults if (note := _missing(fault, made[fault.id]))]
    return [_with_script(fault, made[fault.id]) for fault in faults], notes


def _missing(fault: Fault, script: Script) -> str:
    """What a reader must know of a script that does not show its fault; empty for one that does."""
    if not script.name:
        return f"no script was written for {fault.id}: {script.said}"
    if script.shown:
        return ""
    return f"{script.name} does not show its fault here (exit code {script.code}): {script.said}"


def _with_script(fault: Fault, script: Script) -> Fault:
    return msgspec.structs.replace(fault, repro=script.name, confirmed=script.shown)


def _with_schedule(fault: Fault, cell: Cell) -> Fault:
    """What is told of a fault, from the cell of its smallest schedule."""
    evidence = cell.evidence
    return msgspec.structs.replace(
        fault,
        cause=fault.cause if fault.known else cell.reason,
        smallest=cell.trace,
        schedule=in_words(cell.trace) if cell.trace else "",
        positions=list(evidence.get("positions", []))[:MOST_POSITIONS],
        first=evidence.get("first"),
        max_abs=evidence.get("max_abs"),
        tolerance=evidence.get("tolerance"),
    )


def in_words(trace: str) -> str:
    """`prefill 9, decode 1 x 3 (window 8)`; the rows of a batch as `2+1`."""
    read = parse(trace)
    steps = [_step(entry) for entry in read.entries if entry.rows]
    counted: list[tuple[str, int]] = []
    for step in steps:
        if counted and counted[-1][0] == step:
            counted[-1] = (step, counted[-1][1] + 1)
        else:
            counted.append((step, 1))
    told = ", ".join(step if times == 1 else f"{step} x {times}" for step, times in counted)
    model = read.header.model
    layers = model.layers if model is not None and model.layers else {}
    windows = sorted({family.window for family in layers.values() if family.window})
    return told + (f" (window {', '.join(map(str, windows))})" if windows else "")


def _step(entry: Entry) -> str:
    rows = entry.rows or []
    if entry.kind not in FORWARD_PHASES:
        numbers = [row.asked if row.asked is not None else row.matched for row in rows]
        given = "+".join(str(number) for number in numbers if number is not None)
        return f"{entry.kind} {given}".strip()
    padding = {
        "left": [row.left_padding or 0 for row in rows],
        "right": [row.right_padding or (row.padded or row.tokens or 0) - (row.tokens or 0) for row in rows],
    }
    beside = "".join(
        f" with {'+'.join(map(str, sizes))} of padding on the {side}"
        for side, sizes in padding.items()
        if any(sizes)
    )
    return f"{entry.kind} {'+'.join(str(row.tokens) for row in rows)}{beside}"
