"""Reading a trace: whole (`read`), an entry at a time (`open_stream`), or from a text (`parse`).

A block of lines that are all `- {json}` is decoded by msgspec in one call. Anything else goes item by item:
first to the JSON decoder, then to YAML, so that every style gives equal objects.
"""

from __future__ import annotations

import os
import textwrap
from collections.abc import Callable

from mlxdiag.traces.blocks import Blocks, never
from mlxdiag.traces.stream import Stream
from mlxdiag.traces.types import Trace


def read(path: str | os.PathLike[str]) -> Trace:
    """The whole trace in memory. Raises UnreadableError; for long files use `open_stream`."""
    with open_stream(path) as stream:
        return stream.collect()


def parse(text: str, name: str = "<text>") -> Trace:
    """A trace given as text, indented or not; only here may the `schema:` line be missing."""
    data = textwrap.dedent(text).encode("utf-8", "surrogatepass")
    return Stream(Blocks.of_text(data, name), needs_schema=False).collect()


def open_stream(
    path: str | os.PathLike[str], follow: bool = False, stop: Callable[[], bool] = never
) -> Stream:
    """A trace an entry at a time, in constant memory. Raises UnreadableError when the header cannot be read.

    With `follow`, waits for a growing file until its `end` entry, or until `stop` returns true.
    """
    blocks = Blocks.open(path, follow, stop)
    try:
        return Stream(blocks)
    except BaseException:
        blocks.close()
        raise
