"""Writing a trace: the header, then one line and one system call an entry; a crash loses at most the last."""

from __future__ import annotations

import os
from types import TracebackType
from typing import TypeVar

from mlxdiag.errors import UsageError
from mlxdiag.traces.encode import entry_line, header_text
from mlxdiag.traces.items import ITEM
from mlxdiag.traces.reader import open_stream
from mlxdiag.traces.sink import Sink
from mlxdiag.traces.types import Entry, Header, Trace

_Self = TypeVar("_Self", bound="_Lines")


class _Lines:
    """What a new file and an old one have in common."""

    def __init__(self, sink: Sink, indent: int = 0) -> None:
        self.path = sink.path
        self._sink = sink
        self._indent = b" " * indent

    def write(self, entry: Entry) -> None:
        """One entry, in one write(2). Raises UsageError where the disk is full."""
        self._sink.put(self._indent + entry_line(entry))

    def close(self) -> None:
        """Finish and close the file; harmless when already closed."""
        self._sink.close()

    def __enter__(self: _Self) -> _Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class Writer(_Lines):
    """Writes a new file; an existing one is replaced only with `force`.

    A name that ends in `.zst` is compressed on the way: for files that will be finished, since a crash then
    loses what the compressor still held. Raises UsageError where the file exists, cannot be written, or the
    disk is full; what was written before stays readable.
    """

    def __init__(self, path: str | os.PathLike[str], header: Header, force: bool = False) -> None:
        super().__init__(Sink.create(os.fspath(path), force))
        self._sink.put(header_text(header))


class Appender(_Lines):
    """Goes on with an old trace, in that file's indentation; a last line that a crash cut off is dropped.

    Raises UnreadableError where the old file is not a readable trace, UsageError where nothing can follow it.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        name = os.fspath(path)
        with open_stream(name) as stream:
            for _ in stream:
                pass
            if stream.indent is None:
                raise UsageError(
                    f"{name}: cannot be appended to: not written one entry a line; copy it first"
                )
        size, ends_in_line_break = _keep(name, stream.truncated)
        super().__init__(Sink.resume(name, size), stream.indent)
        if not ends_in_line_break:
            self._sink.put(b"\n")


def dump(trace: Trace, path: str | os.PathLike[str], force: bool = False) -> None:
    """A whole trace into a file. Raises UsageError as Writer does."""
    with Writer(path, trace.header, force) as writer:
        for entry in trace.entries:
            writer.write(entry)


def _keep(path: str, truncated: bool) -> tuple[int, bool]:
    """How many bytes stay, and whether they end in a line break: all but a last line that was cut off."""
    with open(path, "rb") as file:
        last, size = b"", 0
        for last in file:
            size += len(last)
    if not truncated:
        return size, last.endswith(b"\n")
    if not ITEM.match(last):
        raise UsageError(
            f"{path}: ends in the middle of an entry of several lines; repair it before appending"
        )
    return size - len(last), True
