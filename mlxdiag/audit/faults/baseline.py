"""A list of accepted faults and their cells. It may only shrink: what is new fails a run, and what no longer
fails must be taken off, or a later relapse would go unseen.

YAML or JSON:

    schema: mlxdiag.audit-baseline/1
    libraries: {mlx-lm: 0.32.2}
    faults:
      gemma2-window-never-enforced: [gemma2/fresh-over-window, gemma2/decode-across-window]
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from pathlib import Path

import msgspec

from mlxdiag.audit.cell import Audit, Cell
from mlxdiag.errors import UnreadableError

SCHEMA = "mlxdiag.audit-baseline/1"


class Baseline(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Accepted faults by id, each with its cells as `family/scenario`."""

    schema: str
    libraries: dict[str, str] = {}
    """What it was written from; a note and no condition."""
    faults: dict[str, list[str]]


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """Between a baseline and an audit, within what the audit ran."""

    accepted: list[str] = []
    """Ids of faults that fail as before."""
    new_faults: list[str] = []
    new_cells: dict[str, list[str]] = {}
    """By the id of an accepted fault: cells that it did not break before."""
    fixed_faults: list[str] = []
    fixed_cells: dict[str, list[str]] = {}
    """By the id of a fault that still fails elsewhere: cells that it no longer breaks."""

    @property
    def clean(self) -> bool:
        return not (self.new_faults or self.new_cells or self.fixed_faults or self.fixed_cells)

    def lines(self, without: Container[str] = ()) -> Iterator[str]:
        """A sentence for every difference, but for the faults that are told elsewhere."""
        told = (
            *((name, f"new: {name} is not in the baseline") for name in self.new_faults),
            *((name, f"new: {name} {broken(cells)}") for name, cells in self.new_cells.items()),
            *(
                (name, f"fixed: {name} no longer fails: remove it from the baseline")
                for name in self.fixed_faults
            ),
            *((name, f"fixed: {name} {mended(cells)}") for name, cells in self.fixed_cells.items()),
        )
        yield from (line for name, line in told if name not in without)

    def changes(self, name: str) -> Iterator[str]:
        """What is different about one accepted fault."""
        if cells := self.new_cells.get(name):
            yield broken(cells)
        if cells := self.fixed_cells.get(name):
            yield mended(cells)


def broken(cells: Sequence[str]) -> str:
    return f"now also breaks {', '.join(cells)}"


def mended(cells: Sequence[str]) -> str:
    return f"no longer breaks {', '.join(cells)}: remove them from the baseline"


def load(path: Path) -> Baseline:
    """Raises UnreadableError for a file that is missing or of another form."""
    import yaml

    try:
        text = path.read_text(encoding="utf-8")
        held = yaml.load(text, Loader=yaml.CSafeLoader)
        found = msgspec.convert(held, Baseline)
    except OSError as error:
        raise UnreadableError(f"{path}: {error.strerror}") from None
    except (yaml.YAMLError, msgspec.ValidationError, ValueError) as error:
        raise UnreadableError(f"{path}: {' '.join(str(error).split())}") from None
    if found.schema != SCHEMA:
        raise UnreadableError(f"{path}: schema: {found.schema!r} is not {SCHEMA!r}")
    for name, cells in found.faults.items():
        for cell in cells:
            if cell.count("/") != 1:
                raise UnreadableError(f"{path}: faults.{name}: {cell!r} is not of the form family/scenario")
    return found


def of(audit: Audit) -> Baseline:
    """Accepts everything that an audit found."""
    return Baseline(
        schema=SCHEMA,
        libraries=audit.libraries,
        faults={fault.id: [spell(*cell) for cell in fault.cells] for fault in audit.faults},
    )


def dump(held: Baseline) -> str:
    """As YAML, a cell a line, so that a change is a readable diff."""
    import yaml

    body = msgspec.to_builtins(held)
    head = "# Known faults: `mlxdiag audit-models --baseline` fails on new ones and on mended ones.\n"
    return head + yaml.dump(body, sort_keys=False, allow_unicode=True, width=1000)


def compare(held: Baseline, audit: Audit) -> Difference:
    """What an audit found beyond the baseline, and what it no longer found.

    Only cells that were judged count as fixed: one that was not run, or was skipped, proves nothing.
    """
    judged = {spell(cell.family, cell.scenario) for cell in audit.cells if _judged(cell)}
    found = {fault.id: [spell(*cell) for cell in fault.cells] for fault in audit.faults}
    new_cells, fixed_faults, fixed_cells = {}, [], {}
    for name, cells in held.faults.items():
        gone = sorted(cell for cell in cells if cell in judged and cell not in found.get(name, ()))
        added = [cell for cell in found.get(name, ()) if cell not in cells]
        if added:
            new_cells[name] = added
        if gone and name not in found and set(cells) <= judged:
            fixed_faults.append(name)
        elif gone:
            fixed_cells[name] = gone
    return Difference(
        accepted=sorted(name for name in found if name in held.faults),
        new_faults=sorted(name for name in found if name not in held.faults),
        new_cells=dict(sorted(new_cells.items())),
        fixed_faults=sorted(fixed_faults),
        fixed_cells=dict(sorted(fixed_cells.items())),
    )


def spell(family: str, scenario: str) -> str:
    """`gemma2/fresh-over-window`."""
    return f"{family}/{scenario}"


def _judged(cell: Cell) -> bool:
    return cell.result in ("pass", "fail", "crash", "unsupported")
