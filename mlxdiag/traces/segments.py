"""The two files of a flight recorder, read as one trace.

A recorder that overwrites its oldest steps writes two segments in turn, each with the header and the model
entries; where it could not end in peace, nobody has joined them.
"""

from __future__ import annotations

import contextlib
from pathlib import Path

from mlxdiag.errors import UnreadableError
from mlxdiag.traces.blocks import Blocks, never
from mlxdiag.traces.stream import Stream

_MODEL = b'- {"phase": "model"'


def beside(path: Path, mark: str) -> Path:
    """`trace.yaml` and a mark: `trace.mark.yaml`."""
    suffix = "".join(path.suffixes[-2:]) if path.suffix == ".zst" else path.suffix
    return path.with_name(f"{path.name[: len(path.name) - len(suffix)]}.{mark}{suffix}")


def segments(path: Path) -> tuple[Path, Path]:
    """Where the two files of the trace `path` lie."""
    return beside(path, "ring-0"), beside(path, "ring-1")


def text_of(path: Path) -> bytes | None:
    """The whole of a ring, oldest entry first, each model once; None where there is none."""
    known = [(at, segment) for segment in segments(path) if (at := _first_step(segment)) is not None]
    parts: list[bytes] = []
    models: set[bytes] = set()
    for _, segment in sorted(known):
        lines = segment.read_bytes().splitlines(keepends=True)
        if parts:
            lines = lines[next((i for i, line in enumerate(lines) if line == b"steps:\n"), -1) + 1 :]
        for line in lines:
            if line.startswith(_MODEL):
                if line in models:
                    continue
                models.add(line)
            if line.endswith(b"\n"):
                parts.append(line)
    return b"".join(parts) if parts else None


def _first_step(segment: Path) -> int | None:
    """The step that a segment begins with; None where it is missing or has no readable header."""
    if not segment.exists():
        return None
    with contextlib.suppress(UnreadableError), Stream(Blocks.open(segment, False, never)) as stream:
        return next((entry.step for entry in stream if entry.step is not None), 0)
    return None
