"""Where the lines of a recording go."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib import metadata
from pathlib import Path
from typing import Protocol

from mlxdiag import __version__
from mlxdiag.record.followed import Library
from mlxdiag.record.options import Options
from mlxdiag.traces.segments import beside
from mlxdiag.traces.types import Entry, Header, Scheduler
from mlxdiag.traces.writer import Writer


class Output(Protocol):
    """Takes entries; nothing exists on disk before the first."""

    @property
    def started(self) -> bool: ...

    def put(self, entry: Entry) -> None:
        """One entry, in one write(2). Raises UsageError where it cannot be written."""
        ...

    def close(self) -> None: ...


class File:
    """One file with everything."""

    def __init__(
        self, path: Path, header: Callable[[], Header], opened: Callable[[], None] = lambda: None
    ) -> None:
        self.path = path
        self.header = header
        self.opened = opened
        self._writer: Writer | None = None

    @property
    def started(self) -> bool:
        return self._writer is not None

    def put(self, entry: Entry) -> None:
        if self._writer is None:
            self._writer = Writer(self.path, self.header())
            self.opened()
        self._writer.write(entry)

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()


def header(
    options: Options, scheduler: Scheduler, libraries: Iterable[Library], setting: Mapping[str, str]
) -> Header:
    """Where and how this process is recorded. Of the program only its name is told, never its arguments.

    `setting`: device and attention implementation of its model.
    """
    packages = [name for library in libraries for name in library.distributions]
    return Header(
        source={"program": program(), "recorder": __version__},
        environment={
            "os": f"{platform.system()} {platform.release()}",
            "python": platform.python_version(),
            **setting,
            "libraries": {name: metadata.version(name) for name in packages},
        },
        scheduler=scheduler if scheduler != Scheduler() else None,
        level=options.level,
        ids="raw" if options.tokens else None,
        note="; ".join(_notes(options, libraries)) or None,
    )


def program() -> str:
    """Name of the running script; of the package, for one that `python -m` runs."""
    path = Path(sys.argv[0] if sys.argv else "")
    return (path.parent.name if path.name == "__main__.py" else path.name) or "python"


def _notes(options: Options, libraries: Iterable[Library]) -> Iterator[str]:
    if options.level == "digest":
        for library in libraries:
            yield library.digest
    if options.ring:
        yield f"a ring: the last {options.ring} to {2 * options.ring} entries"


def own_name(path: Path, main: bool) -> Path:
    """The named file for the main process; for a child, or where it exists already, one beside it."""
    return path if main and not path.exists() else beside(path, str(os.getpid()))
