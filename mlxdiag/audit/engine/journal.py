"""The file of `--resume`: finished cells, a line each, as they come. A later run skips them.

The first line says what the cells depend on; a file of another library, seed, device or set of scenarios is
refused, for its cells would be mixed with others. A last line cut short by a crash is dropped.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType

import msgspec

from mlxdiag.audit.cell import Cell
from mlxdiag.errors import UnreadableError, UsageError

SCHEMA = "mlxdiag.audit-journal/1"
PLURAL = ("libraries", "sources", "scenarios")
MOST_NAMES = 4
"""Scenarios named on each side of a difference before the rest is counted."""


class Terms(msgspec.Struct, kw_only=True):
    """What finished cells depend on."""

    schema: str = SCHEMA
    libraries: dict[str, str]
    sources: dict[str, str] = {}
    """Hashes of the files: somebody may have changed them under one version."""
    device: str
    seed: int
    scenarios: list[str]
    """All that were asked for, in the order of the table."""


class Journal:
    """A context: open for appending. `cells` are those of earlier runs."""

    def __init__(self, path: Path, terms: Terms) -> None:
        self.path = path
        self.terms = terms
        self.cells: list[Cell] = []
        self.lost = ""
        """Why finished cells are no longer kept: the disk is full, or the folder is gone."""

    def __enter__(self) -> Journal:
        """Raises UnreadableError for a file that is no journal or a stale one, UsageError for one that
        cannot be written."""
        if self.path.exists() and not (self.path.is_file() or self.path.is_dir()):
            raise UnreadableError(f"{self.path}: is a device or a pipe, and no file of --resume")
        whole = self._read() if self.path.exists() else b""
        try:
            self.file = self.path.open("r+b" if self.path.exists() else "xb")
            self.file.truncate(len(whole))
            self.file.seek(0, os.SEEK_END)
            if not whole:
                self._write(self.terms)
        except OSError as error:
            raise UsageError(f"cannot write {self.path}: {error.strerror}") from None
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with contextlib.suppress(OSError):
            self.file.close()  # what could not be written is tried once more, and `lost` says so already

    def add(self, cells: Iterable[Cell]) -> None:
        """Append at once: a killed run loses no finished cell. A disk that is full stops no audit."""
        for cell in [] if self.lost else cells:
            try:
                self._write(cell)
            except OSError as error:
                self.lost = error.strerror or type(error).__name__
                return

    def _write(self, value: msgspec.Struct) -> None:
        self.file.write(msgspec.json.encode(value) + b"\n")
        self.file.flush()

    def _read(self) -> bytes:
        """Fill `cells`; the bytes of the file up to its last whole line."""
        try:
            data = self.path.read_bytes()
        except OSError as error:
            raise UnreadableError(f"{self.path}: {error.strerror}") from None
        whole = data[: data.rfind(b"\n") + 1]
        if data and not whole:
            raise UnreadableError(f"{self.path}: is no file of --resume; give the name of a new one")
        for number, line in enumerate(whole.splitlines(), 1):
            try:
                if number == 1:
                    self._require_same(msgspec.json.decode(line, type=Terms))
                else:
                    self.cells.append(msgspec.json.decode(line, type=Cell))
            except (msgspec.MsgspecError, UnicodeDecodeError) as error:
                raise UnreadableError(
                    f"{self.path}: line {number} is no line of --resume ({error}); give a new file"
                ) from None
        return whole

    def _require_same(self, held: Terms) -> None:
        for name in Terms.__struct_fields__:
            mine, theirs = getattr(self.terms, name), getattr(held, name)
            if mine != theirs:
                other = "other" if name in PLURAL else "another"
                raise UnreadableError(
                    f"{self.path}: is stale: it was written with {other} {name} ({_told(theirs, mine)}); "
                    "delete it or give a new file"
                )


def _told(theirs: object, mine: object) -> str:
    """What was, and what is now; of two lists of names, how many and a few that only one of them has."""
    if isinstance(theirs, list) and isinstance(mine, list):
        return (
            f"{len(theirs)}, now {len(mine)}"
            f"{_only('only there', theirs, mine)}{_only('only now', mine, theirs)}"
        )
    return f"{_tell(theirs)}, now {_tell(mine)}"


def _only(label: str, some: list[str], others: list[str]) -> str:
    names = [name for name in some if name not in others]
    rest = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
    return f"; {label}: {', '.join(names[:MOST_NAMES])}{rest}" if names else ""


def _tell(value: object) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {version}" for name, version in value.items()) or "none told"
    return str(value)
