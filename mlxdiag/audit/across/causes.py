"""What somebody has read up of a difference: `causes.yaml`, its lines in the installed copies, and the
grouping.

Lines are found by what is written on them, as in `faults.causes`: a number would be wrong after the next
release.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from importlib.resources import files

import msgspec
import yaml

from mlxdiag.audit.across.cell import Cell, Difference, Kind
from mlxdiag.audit.faults.causes import Locator, Name, Names, Text, Where


class Cause(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Why two libraries differ."""

    name: Name
    families: Names
    """Names or patterns."""
    kinds: list[Kind]
    scenarios: Names = msgspec.field(default_factory=lambda: ["*"])
    library: str
    """The one that departs from what the config, or the model's own code, means."""
    text: Text
    where: list[Where]
    """The line that departs, of each family that has its own; the first that is in the family's file counts,
    else the first."""


class Causes(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The whole file. The first entry that fits counts."""

    causes: list[Cause] = []

    def of(self, cell: Cell, kind: Kind, library: str) -> Cause | None:
        """What is known of a difference of this kind, in which `library` departs ("": it is not told)."""
        for cause in self.causes:
            if (
                kind in cause.kinds
                and library in ("", cause.library)
                and any(fnmatchcase(cell.family, one) for one in cause.families)
                and any(fnmatchcase(cell.scenario, one) for one in cause.scenarios)
            ):
                return cause
        return None


def load() -> Causes:
    """The shipped file."""
    text = files(__package__).joinpath("causes.yaml").read_text(encoding="utf-8")
    return msgspec.convert(yaml.load(text, Loader=yaml.CSafeLoader) or {}, Causes)


def group(
    cells: Iterable[Cell], causes: Causes, locators: Mapping[str, Locator]
) -> tuple[list[Cell], list[Difference], list[str]]:
    """The cells with their causes written into them, the differences behind them, and notes on entries whose
    line is in none of the installed copies. `locators`: by package.
    """
    named = [_named(cell, causes, locators) for cell in cells]
    held: dict[str, list[Cell]] = {}
    for cell in named:
        for cause in cell.causes:
            held.setdefault(cause, []).append(cell)
    known = {cause.name: cause for cause in causes.causes}
    differences = [_difference(name, part, known.get(name), locators) for name, part in sorted(held.items())]
    stale = [
        f"stale cause {cause.name}: {where.file} does not hold {where.first_line!r}"
        for cause in causes.causes
        for where in cause.where
        if _line(where, locators) is None
    ]
    return named, differences, sorted(stale)


def _named(cell: Cell, causes: Causes, locators: Mapping[str, Locator]) -> Cell:
    if cell.result != "differ" or cell.kind is None:
        return cell
    found: list[str] = []
    place, library = "", cell.library
    for kind, departs in ((cell.kind, cell.library), (cell.also, cell.also_library)):
        if kind is None:
            continue
        cause = causes.of(cell, kind, departs)
        found.append(cause.name if cause is not None else _derived(cell, kind, departs))
        if cause is not None and kind == cell.kind:
            place, library = _place(cause, cell.family, locators), cause.library
    return msgspec.structs.replace(cell, causes=found, where=place, library=library)


def _place(cause: Cause, family: str, locators: Mapping[str, Locator]) -> str:
    """The cause's line in the family's own file, where it has one."""
    stem = family.partition("+")[0].removesuffix("_text")
    where = next((one for one in cause.where if one.file.endswith(f"/{stem}.py")), cause.where[0])
    line = _line(where, locators)
    return f"{where.file}:{line}" if line is not None else where.file


def _derived(cell: Cell, kind: Kind, library: str) -> str:
    """A name for what nobody has read up: one for each family and kind of difference."""
    words = (cell.family, kind, library or "unread")
    return "-".join(re.sub(r"[^a-z0-9]+", "-", word.lower()).strip("-") for word in words)


def _difference(
    name: str, cells: Sequence[Cell], cause: Cause | None, locators: Mapping[str, Locator]
) -> Difference:
    # Told by a cell of which it is the first difference, if there is any.
    first = next((cell for cell in cells if cell.causes[0] == name), cells[0])
    families = sorted({cell.family for cell in cells})
    places = [_place(cause, family, locators) for family in families] if cause is not None else []
    headline = first.causes[0] == name
    departs = first.library if headline else first.also_library
    return Difference(
        id=name,
        kind=(first.kind if headline else first.also) or "inside",
        library=cause.library if cause is not None else departs,
        families=families,
        cells=[(cell.family, cell.scenario) for cell in cells],
        cause=" ".join(cause.text.split()) if cause is not None else first.reason,
        where=", ".join(dict.fromkeys(places)),
        largest=max(cell.largest or 0.0 for cell in cells),
        known=cause is not None,
    )


def _line(where: Where, locators: Mapping[str, Locator]) -> int | None:
    package = where.file.partition("/")[0]
    return locators[package].line(where) if package in locators else None
