"""Joins the shards of one audit. The result equals the audit that was never split."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from mlxdiag.audit.cell import SCHEMA, Audit
from mlxdiag.audit.faults import faults
from mlxdiag.errors import UnreadableError, UsageError

ALIKE = ("libraries", "sources", "device", "seed", "families", "asked")
"""What must be the same in every shard."""
MOST = 10_000
"""Shards that one audit may have."""


def read(path: Path) -> Audit:
    """An audit from the JSON that `audit-models --format json` wrote.

    Raises:
        UnreadableError: the file is missing, cut off, or something else.
    """
    try:
        found = msgspec.json.decode(path.read_bytes(), type=Audit)
    except OSError as error:
        raise UnreadableError(f"{path}: {error.strerror}") from None
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise UnreadableError(f"{path}: is no audit in JSON: {error}") from None
    if found.schema != SCHEMA:
        raise UnreadableError(f"{path}: schema: {found.schema!r} is not {SCHEMA!r}")
    if found.shard is not None and not 1 <= found.shard[0] <= found.shard[1] <= MOST:
        raise UnreadableError(f"{path}: shard: {found.shard[0]}/{found.shard[1]} is no part of a whole")
    named = {cell for fault in found.faults for cell in fault.cells}
    lost = sum(cell.wrong and (cell.family, cell.scenario) not in named for cell in found.cells)
    if lost:
        raise UnreadableError(
            f"{path}: {lost} wrong cells belong to no fault: it was written under --select or --ignore"
        )
    return found


def merge(shards: Sequence[tuple[str, Audit]]) -> Audit:
    """All shards, each with the name of its file, as one audit.

    Raises:
        UsageError: shards of different versions, seeds, devices or splits, one given twice, or an audit that
            is no shard.
        UnreadableError: a shard is missing.
    """
    first, *others = shards
    for name, audit in shards:
        if audit.shard is None:
            raise UsageError(f"{name}: is a whole audit and no shard")
    for name, audit in others:
        for field in ALIKE:
            mine, theirs = getattr(first[1], field), getattr(audit, field)
            if mine != theirs:
                raise UsageError(f"{name}: other {field} than {first[0]}: {_tell(theirs)}, not {_tell(mine)}")
    _require_all(shards)
    order = _order(shards)
    cells = sorted(
        (cell for _, audit in shards for cell in audit.cells),
        key=lambda cell: (cell.family, order[cell.scenario]),
    )
    return Audit(
        libraries=first[1].libraries,
        sources=first[1].sources,
        device=first[1].device,
        seed=first[1].seed,
        asked=first[1].asked,
        families=first[1].families,
        cells=cells,
        faults=faults.join((fault for _, audit in shards for fault in audit.faults), cells),
        noise=dict(sorted(pair for _, audit in shards for pair in audit.noise.items())),
        notes=sorted({note for _, audit in shards for note in audit.notes}),
        seconds=sum(audit.seconds for _, audit in shards),
    )


def _require_all(shards: Sequence[tuple[str, Audit]]) -> None:
    counts = {audit.shard[1] for _, audit in shards if audit.shard}
    if len(counts) > 1:
        raise UsageError(f"the shards are of different splits: into {' and '.join(map(str, sorted(counts)))}")
    (count,) = counts
    seen: dict[int, str] = {}
    for name, audit in shards:
        index = audit.shard[0] if audit.shard else 0
        if index in seen:
            raise UsageError(f"{name}: is shard {index}/{count}, and so is {seen[index]}")
        seen[index] = name
    missing = [f"{index}/{count}" for index in range(1, count + 1) if index not in seen]
    if missing:
        raise UnreadableError(f"missing: shard {', '.join(missing)}")


def _order(shards: Sequence[tuple[str, Audit]]) -> dict[str, int]:
    """Places of the scenarios: every family of every shard must have been run under the same ones."""
    orders: dict[tuple[str, ...], str] = {}
    for name, audit in shards:
        rows: dict[str, list[str]] = {}
        for cell in audit.cells:
            rows.setdefault(cell.family, []).append(cell.scenario)
        for row in rows.values():
            orders.setdefault(tuple(row), name)
    if len(orders) > 1:
        names = list(orders.values())
        raise UsageError(f"{names[1]}: other scenarios than {names[0]}")
    return {scenario: place for row in orders for place, scenario in enumerate(row)}


def _tell(value: object) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {version}" for name, version in value.items()) or "none told"
    return ", ".join(map(str, value)) or "all" if isinstance(value, list) else str(value)
