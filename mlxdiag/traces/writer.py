"""Writing a trace: the header, then one line and one system call an entry; a crash loses at most the last."""

from __future__ import annotations

import os
from types import TracebackType

from mlxdiag.errors import UsageError
from mlxdiag.traces.encode import entry_line, header_text
from mlxdiag.traces.types import Entry, Header, Trace


class Writer:
    """Appends entries to a new file.

    Raises UsageError where the file exists (without `force`), cannot be written, or the disk is full.
    """

    def __init__(self, path: str | os.PathLike[str], header: Header, force: bool = False) -> None:
        self.path = os.fspath(path)
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | (os.O_TRUNC if force else os.O_EXCL)
        try:
            self._file = os.open(self.path, flags | getattr(os, "O_CLOEXEC", 0), 0o666)
        except FileExistsError:
            raise UsageError(f"{self.path}: exists already; --force overwrites it") from None
        except OSError as error:
            raise UsageError(f"{self.path}: cannot be written: {error.strerror}") from None
        self._write(header_text(header))

    def write(self, entry: Entry) -> None:
        """One entry, in one write(2)."""
        self._write(entry_line(entry))

    def _write(self, data: bytes) -> None:
        try:
            written = os.write(self._file, data)
            while written < len(data):
                written += os.write(self._file, data[written:])
        except OSError as error:
            raise UsageError(f"{self.path}: cannot be written: {error.strerror}") from None

    def close(self) -> None:
        """Close the file; harmless when already closed."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def __enter__(self) -> Writer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def dump(trace: Trace, path: str | os.PathLike[str], force: bool = False) -> None:
    """A whole trace into a file. Raises UsageError as Writer does."""
    with Writer(path, trace.header, force) as writer:
        for entry in trace.entries:
            writer.write(entry)
