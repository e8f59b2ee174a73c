"""A trace as the text of its file."""

from __future__ import annotations

from mlxdiag.traces.encode import entry_line, header_text
from mlxdiag.traces.types import Trace


def of(trace: Trace) -> str:
    """What `traces.writer.dump` would write."""
    return (header_text(trace.header) + b"".join(entry_line(entry) for entry in trace.entries)).decode()
