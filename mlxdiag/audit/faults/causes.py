"""What somebody has read in the library's source: `causes.yaml`, and its lines in an installed copy.

A *cause* names the fault behind wrong cells. An *excuse* says why a cell only looks wrong, and turns it into
a pass; so it must say for which families, scenarios and codes, and it holds only where every code of the cell
is among them. Lines are found by what is written on them: a number would be wrong after the next release.
"""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from importlib import resources
from pathlib import Path
from typing import Annotated

import msgspec

from mlxdiag.audit.cell import LIBRARY, Cell
from mlxdiag.errors import UnreadableError

Text = Annotated[str, msgspec.Meta(min_length=1)]
Names = Annotated[list[Text], msgspec.Meta(min_length=1)]
Name = Annotated[str, msgspec.Meta(pattern=r"^[a-z0-9]+(-[a-z0-9]+)*$")]
Code = Annotated[str, msgspec.Meta(pattern=r"^MD\d{3}$")]


class _Entry(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    pass


class Where(_Entry, frozen=True):
    """A place in the library's source."""

    file: Text
    """As `mlx_lm/models/gemma2.py`."""
    snippet: Text
    """What its first line holds; several lines must follow one another. Blanks at the ends do not count."""
    after: str = ""
    """A line that must come before, where the snippet stands in several places."""

    @property
    def first_line(self) -> str:
        return self.snippet.strip().splitlines()[0].strip()


class Match(_Entry, frozen=True):
    """Which cells an entry speaks of. Families and scenarios are glob patterns."""

    families: Names
    scenarios: Names
    codes: Annotated[list[Code], msgspec.Meta(min_length=1)]
    """All that this shows: a cell with another code, for which no entry accounts, has something else too."""
    mark: Code | None = None
    """A code without which the entry does not fit, where the others alone would say too little."""
    reason: str = ""
    """A regular expression that the cell's reason must hold."""

    def fits(self, cell: Cell) -> bool:
        """Leaving the codes aside, but for the mark."""
        return (
            (self.mark is None or self.mark in cell.codes)
            and any(fnmatchcase(cell.family, pattern) for pattern in self.families)
            and any(fnmatchcase(cell.scenario, pattern) for pattern in self.scenarios)
            and (not self.reason or re.search(self.reason, cell.reason) is not None)
        )


Matches = Annotated[list[Match], msgspec.Meta(min_length=1)]
"""Any of them."""


class Cause(_Entry, frozen=True):
    """Something the library does wrong."""

    name: Name
    match: Matches
    text: Text
    """What is wrong and why, in one or two sentences."""
    where: Where
    code: Code
    """The headline."""

    def explains(self, cell: Cell) -> set[str]:
        """The codes of the cell that this accounts for; empty where it does not fit."""
        codes = (code for one in self.match if one.fits(cell) for code in one.codes)
        return set(codes) & set(cell.codes)


class Excuse(_Entry, frozen=True):
    """Something that only looks wrong."""

    name: Name
    match: Matches
    text: Text
    """Why it is right all the same."""
    where: Where

    def excuses(self, cell: Cell) -> bool:
        return bool(cell.codes) and any(
            one.fits(cell) and set(cell.codes) <= set(one.codes) for one in self.match
        )


class Causes(_Entry, frozen=True):
    """The whole file. The first entry that fits counts."""

    causes: list[Cause] = []
    excuses: list[Excuse] = []

    def explaining(self, cell: Cell) -> Cause | None:
        """The first cause that fits; None where a code is left that no fitting cause accounts for.

        A family may have two faults that one schedule shows. One that nobody has read up is not to hide
        behind one that somebody has.
        """
        fitting = {cause.name: found for cause in self.causes if (found := cause.explains(cell))}
        covered: set[str] = set().union(*fitting.values())
        return self.named(next(iter(fitting))) if fitting and set(cell.codes) <= covered else None

    def excusing(self, cell: Cell) -> Excuse | None:
        return next((excuse for excuse in self.excuses if excuse.excuses(cell)), None)

    def named(self, name: str) -> Cause | None:
        return next((cause for cause in self.causes if cause.name == name), None)


class Locator:
    """Finds lines in the installed copy under `root`, the folder that holds the package."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._held: dict[str, list[str]] = {}

    def line(self, where: Where) -> int | None:
        """The line, from 1, on which the snippet begins; None where the file or the snippet is not there."""
        lines = self._lines(where.file)
        wanted = [part.strip() for part in where.snippet.strip().splitlines()]
        begin = 0
        if where.after:
            found = (at for at, line in enumerate(lines) if where.after.strip() in line)
            begin = next(found, len(lines))
        for at in range(begin, len(lines) - len(wanted) + 1):
            if all(part in lines[at + step] for step, part in enumerate(wanted)):
                return at + 1
        return None

    def source(self, place: str) -> str:
        """The text of `file:line`, stripped; empty where it is not there."""
        file, _, number = place.rpartition(":")
        if not number.isdigit():
            return ""
        lines = self._lines(file)
        return lines[int(number) - 1].strip() if 0 < int(number) <= len(lines) else ""

    def _lines(self, file: str) -> list[str]:
        if file not in self._held:
            path = self.root / file
            text = path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""
            self._held[file] = text.splitlines()
        return self._held[file]


FILES = {"mlx-lm": "causes.yaml", "transformers": "causes_transformers.yaml"}
"""By library: what is shipped."""


def load(path: Path | None = None, library: str = LIBRARY) -> Causes:
    """The shipped file of a library, or another of the same form.

    Raises:
        UnreadableError: it is not of that form; the message names the field.
    """
    import yaml

    name = FILES[library]
    shown = path or name
    try:
        text = (path or resources.files("mlxdiag.audit.faults") / name).read_text(encoding="utf-8")
        held = msgspec.convert(yaml.load(text, Loader=yaml.CSafeLoader) or {}, Causes)
    except OSError as error:
        raise UnreadableError(f"{shown}: {error.strerror}") from None
    except (yaml.YAMLError, msgspec.ValidationError, UnicodeDecodeError) as error:
        raise UnreadableError(f"{shown}: {' '.join(str(error).split())}") from None
    _check(held, str(shown))
    return held


def _check(held: Causes, shown: str) -> None:
    entries: list[Cause | Excuse] = [*held.causes, *held.excuses]
    names = [entry.name for entry in entries]
    for name in sorted({name for name in names if names.count(name) > 1}):
        raise UnreadableError(f"{shown}: two entries are named {name}")
    for entry in entries:
        for one in entry.match:
            try:
                re.compile(one.reason)
            except re.error as error:
                raise UnreadableError(f"{shown}: {entry.name}: reason: {error}") from None
    for excuse in held.excuses:
        if any("*" in one.scenarios for one in excuse.match):
            raise UnreadableError(f"{shown}: {excuse.name}: an excuse must say for which scenarios it holds")
