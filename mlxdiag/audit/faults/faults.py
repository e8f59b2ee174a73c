"""From cells to faults: what looks wrong and is excused, and which cells fail for one cause.

The name of a cause is in `Cell.signature` from here on, so that shards can be joined where the library is not
installed: `join` makes the same faults of the cells of all shards as of those of one run.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from mlxdiag.audit.cell import ORACLES, Cell, Fault
from mlxdiag.audit.faults.causes import Cause, Causes, Excuse, Locator

MOST_POSITIONS = 16
TELLING = ("MD901", "MD906", "MD902", "MD1", "MD2", "MD3", "MD5", "MD9", "MD4")
"""Beginnings of codes, those first that say most about what is broken; parity alone says least."""


def group(cells: Iterable[Cell], causes: Causes, source: Locator) -> tuple[list[Cell], list[Fault]]:
    """The cells with excuses and causes written into them, and the faults behind the wrong ones.

    An entry whose line is not in this copy of the library explains and excuses nothing in it.
    """
    judged = [_judged(cell, causes, source) for cell in cells]
    single = [_fault(cell, causes) for cell in judged if cell.wrong]
    return judged, join(single, judged)


def join(parts: Iterable[Fault], cells: Sequence[Cell]) -> list[Fault]:
    """Parts of the same faults joined, sorted by id.

    What is told of the smallest schedule comes from the part that holds the shortest failing trace.
    """
    lengths = {(cell.family, cell.scenario): len(cell.trace) for cell in cells}
    held: dict[str, list[Fault]] = {}
    for part in parts:
        held.setdefault(part.id, []).append(part)
    return [_joined(held[name], lengths) for name in sorted(held)]


def representatives(fault: Fault, cells: Sequence[Cell]) -> list[Cell]:
    """A fault's cells, those with the shortest schedules first: from them a smaller one is looked for."""
    own = set(fault.cells)
    return sorted(
        (cell for cell in cells if cell.wrong and (cell.family, cell.scenario) in own),
        key=lambda cell: (len(cell.trace), cell.family, cell.scenario),
    )


def stale(causes: Causes, source: Locator) -> list[str]:
    """A note for every entry whose line is not in this copy of the library."""
    notes: list[str] = []
    kinds: dict[str, Sequence[Cause | Excuse]] = {"cause": causes.causes, "excuse": causes.excuses}
    for kind, entries in kinds.items():
        notes += [
            f"stale {kind} {entry.name}: {entry.where.file} does not hold {entry.where.first_line!r}"
            for entry in entries
            if source.line(entry.where) is None
        ]
    return sorted(notes)


def headline(codes: Sequence[str]) -> str:
    """The most telling of a cell's codes."""
    ranked = sorted(codes, key=lambda code: (_rank(code), code))
    return ranked[0] if ranked else "MD402"


def _rank(code: str) -> int:
    return next((place for place, begin in enumerate(TELLING) if code.startswith(begin)), len(TELLING))


def _judged(cell: Cell, causes: Causes, source: Locator) -> Cell:
    if not cell.wrong:
        return cell
    excuse = causes.excusing(cell) if cell.result == "fail" else None
    if excuse is not None and source.line(excuse.where) is not None:
        return msgspec.structs.replace(
            cell, result="pass", excuse=excuse.name, reason=" ".join(excuse.text.split()), signature=""
        )
    cause = causes.explaining(cell)
    line = source.line(cause.where) if cause is not None else None
    if cause is None or line is None:
        return msgspec.structs.replace(cell, signature=_derived(cell, source))
    return msgspec.structs.replace(cell, signature=cause.name, where=f"{cause.where.file}:{line}")


def _derived(cell: Cell, source: Locator) -> str:
    """A name for a cause that nobody has read up: headline, file, and a hash of what its cells share.

    The text of the line is part of it and not its number, which changes with every release.
    """
    code = headline(cell.codes)
    file = cell.where.rpartition(":")[0]
    mechanism = re.sub(r"\d+", "#", cell.reason) if cell.result == "crash" else cell.signature
    parts = (code, file or cell.family, source.source(cell.where), mechanism)
    digest = hashlib.sha256("\n".join(parts).encode()).hexdigest()[:6]
    stem = file.rpartition("/")[2].removesuffix(".py") or cell.family
    return "-".join((code.lower(), re.sub(r"[^a-z0-9]+", "-", stem.lower()), digest))


def _fault(cell: Cell, causes: Causes) -> Fault:
    """The fault of one cell, to be joined with others of its id."""
    cause = causes.named(cell.signature)
    evidence: dict[str, Any] = cell.evidence
    return Fault(
        id=cell.signature,
        code=cause.code if cause else headline(cell.codes),
        codes=sorted(cell.codes),
        library=cell.library,
        families=[cell.family],
        cells=[(cell.family, cell.scenario)],
        cause=" ".join(cause.text.split()) if cause else cell.reason,
        where=cell.where,
        oracles=list(cell.oracles),
        positions=list(evidence.get("positions", []))[:MOST_POSITIONS],
        first=evidence.get("first"),
        max_abs=evidence.get("max_abs"),
        tolerance=evidence.get("tolerance"),
        known=cause is not None,
    )


def _joined(parts: Sequence[Fault], lengths: dict[tuple[str, str], int]) -> Fault:
    def size(part: Fault) -> tuple[int, str, str]:
        return min((lengths.get(cell, 0), *cell) for cell in part.cells)

    smallest = min(parts, key=size)
    codes = {code for part in parts for code in part.codes}
    oracles = {name for part in parts for name in part.oracles}
    return msgspec.structs.replace(
        smallest,
        codes=sorted(codes),
        families=sorted({name for part in parts for name in part.families}),
        cells=sorted({cell for part in parts for cell in part.cells}),
        oracles=[name for name in ORACLES if name in oracles],
    )
