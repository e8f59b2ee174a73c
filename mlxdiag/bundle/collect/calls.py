"""The attention calls of one step as a table: what was given, and what the cache had to return."""

from __future__ import annotations

from collections.abc import Iterator

from mlxdiag.inspect.call import Call, build
from mlxdiag.inspect.geometry import returned_keys
from mlxdiag.inspect.run import Run
from mlxdiag.reports.view import count
from mlxdiag.traces.types import Entry, Trace

HEADER = (
    "layers",
    "cache",
    "window",
    "offset before",
    "queries",
    "keys returned",
    "keys due",
    "mask",
    "its fate",
)


def table(trace: Trace, step: int) -> Iterator[str]:
    """Markdown; nothing where the step holds no attention call."""
    found = _at(trace, step)
    if found is None:
        return
    entry, calls = found
    rows = "; ".join(_row(entry, i) for i in range(len(entry.rows or ())))
    yield f"Step {step} ({entry.kind}{': ' + rows if rows else ''}):"
    yield ""
    # What transformers calls the attention mask of a caller: 2-D, of whole sequences.
    padding = any(call.attention.key_padding is not None for call in calls)
    header = (*HEADER, "padding mask") if padding else HEADER
    yield "| " + " | ".join(header) + " |"
    yield "|" + "---|" * len(header)
    for call in calls:
        yield "| " + " | ".join([*_cells(call), *([_padding(call)] if padding else [])]) + " |"
    yield ""


def _at(trace: Trace, step: int) -> tuple[Entry, list[Call]] | None:
    run = Run(trace.header)
    for entry in trace.entries:
        run.enter(entry)
        if entry.step == step and entry.attention:
            return entry, [build(entry, index, run) for index in range(len(entry.attention))]
    return None


def _row(entry: Entry, index: int) -> str:
    row = (entry.rows or [])[index]
    said = [row.seq or f"row {index}"]
    said += [f"{name} {value}" for name in ("offset", "tokens", "padded", "left_padding", "total")
             if (value := getattr(row, name)) is not None]  # fmt: skip
    return " ".join(said)


def _padding(call: Call) -> str:
    columns = call.attention.key_padding
    return "-" if columns is None else count(columns, "column")


def _cells(call: Call) -> list[str]:
    a = call.attention
    due = None
    if call.cache is not None and call.q is not None and call.cursor is not None:
        due = returned_keys(
            call.cache, call.q, call.cursor, window=call.bound, keep=call.keep, slack=call.slack,
            live=call.live if call.live_known else None,
        )  # fmt: skip
    mask = {"none": "none", "causal": "causal", None: "not observed"}.get(call.mask_kind)
    if mask is None:
        mask = str(list(a.mask)) if isinstance(a.mask, tuple) else f"{call.m} columns"
    fate = " ".join(part for part in (call.fate, call.fallback, call.crop) if part)
    values = (call.family, call.cache, call.window, call.cursor, call.q, call.ks or call.k, due)
    return [*("-" if value is None else str(value) for value in values), mask, fate or "-"]
