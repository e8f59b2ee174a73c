"""A trace from wherever it lies: a file, standard input, or inside of a bundle."""

from __future__ import annotations

from mlxdiag.traces.reader import open_stream
from mlxdiag.traces.stream import Stream

ZIP = b"PK\x03\x04"


def open_source(path: str) -> Stream:
    """The trace in a file or in a bundle, which is read in memory. Raises UnreadableError."""
    if not _is_zip(path):
        return open_stream(path)
    from mlxdiag.bundle.pack.opening import trace_of  # a plain trace never waits for it
    from mlxdiag.traces.blocks import Blocks

    return Stream(Blocks.of_text(trace_of(path), path))


def _is_zip(path: str) -> bool:
    if path == "/dev/stdin":
        return False
    try:
        with open(path, "rb") as file:
            return file.read(len(ZIP)) == ZIP
    except (OSError, ValueError):
        return False  # whoever opens it next says why
