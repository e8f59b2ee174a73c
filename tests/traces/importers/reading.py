"""Imports a text and shows what came of it."""

from __future__ import annotations

import io
from typing import Any

import msgspec

from mlxdiag.inspect.findings import Report
from mlxdiag.inspect.inspector import inspect_trace
from mlxdiag.traces.encode import entry_line, header_text
from mlxdiag.traces.importers import registry
from mlxdiag.traces.importers.registry import Imported
from mlxdiag.traces.reader import parse
from mlxdiag.traces.types import Entry, Trace


def gemma4(window: int) -> Entry:
    """A model entry as a config.json with this window gives it."""
    from mlxdiag.models.configs import geometry

    config = {"model_type": "gemma4_text", "sliding_window": window, "num_hidden_layers": 12}
    return geometry.from_config(config).model_entry("gemma4_text")


def imported(*logs: str | bytes, model: Entry | None = None) -> Imported:
    files = [io.BytesIO(one.encode() if isinstance(one, str) else one) for one in logs]
    return registry.read([(f"log-{i}", file) for i, file in enumerate(files)], model)


def trace_of(*logs: str | bytes, model: Entry | None = None) -> Trace:
    """The trace as a reader gets it: written and read again."""
    return written(imported(*logs, model=model))


def written(found: Imported) -> Trace:
    trace = found.trace
    text = header_text(trace.header) + b"".join(entry_line(entry) for entry in trace.entries)
    again = parse(text.decode())
    assert not again.warnings
    return again


def steps_of(*logs: str | bytes, model: Entry | None = None) -> list[dict[str, Any]]:
    """The entries but for the model, as plain data without notes."""
    found = []
    for entry in trace_of(*logs, model=model).entries:
        if entry.phase != "model":
            plain = msgspec.json.decode(msgspec.json.encode(entry))
            plain.pop("note", None)
            plain.pop("step", None)
            found.append(plain)
    return found


def report_on(*logs: str | bytes, model: Entry | None = None) -> Report:
    return inspect_trace(trace_of(*logs, model=model))


def codes(*logs: str | bytes, model: Entry | None = None) -> list[tuple[str, str]]:
    """Codes and severities of the findings, worst first."""
    return [(finding.code, finding.severity) for finding in report_on(*logs, model=model).findings]
