"""Reading a trace: whole (`read`), an entry at a time (`open_stream`), or from a text (`parse`).

A line `- {json}` is decoded by msgspec alone. Anything else goes first to the JSON decoder, then to YAML, so
that every style gives equal objects:

- NaN and the infinities, which JSON lacks, are read as YAML spells them (`.nan`) and as Python does (`NaN`);
- of a key given twice in one mapping the last value counts, and `1e-7` is a number, in either language;
- an unknown field is left out with one warning a path, so is what a newer minor version added; another
  major version is refused;
- a last line without a line break that cannot be parsed was cut off by a crash: `truncated`, no error;
- any other broken entry raises UnreadableError, after the entries before it were handed out.
"""

from __future__ import annotations

import os
import textwrap
from collections.abc import Callable
from pathlib import Path

from mlxdiag.traces.blocks import Blocks, never
from mlxdiag.traces.segments import text_of
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

    With `follow`, waits for a growing file until its `end` entry, or until `stop` returns true. Where there
    is no such file, but the segments of a flight recorder that could not join them are, those are read.
    """
    if not follow and not os.path.exists(path):
        joined = text_of(Path(path))
        if joined is not None:
            name = os.fspath(path)
            stream = Stream(Blocks.of_text(joined, name))
            stream.warnings.append(
                f"{name}: no such file; read from its two segments, which nobody has joined: the last steps"
            )
            return stream
    blocks = Blocks.open(path, follow, stop)
    try:
        return Stream(blocks)
    except BaseException:
        blocks.close()
        raise
