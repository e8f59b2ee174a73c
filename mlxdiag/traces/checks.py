"""Entries that contradict themselves: what no program, however faulty, can have done."""

from __future__ import annotations

from mlxdiag.errors import UnreadableError
from mlxdiag.traces.types import TOKEN_CLASSES, Entry, Row


def check(entry: Entry, index: int, name: str) -> None:
    """Raises UnreadableError naming file, step and field; `index` counts entries from 0."""
    reason = contradiction(entry)
    if reason:
        raise UnreadableError(f"{name}: {place(entry.step, index)}: {reason}")


def place(step: int | None, index: int) -> str:
    """How messages call an entry: by its step, else by its place in the file."""
    return f"entry {index + 1}" if step is None else f"step {step}"


def contradiction(entry: Entry) -> str | None:
    """The first thing in an entry that cannot be, as `field: what`."""
    if entry.rows:
        for index, row in enumerate(entry.rows):
            reason = _row(row)
            if reason:
                return f"rows[{index}].{reason}"
    return None


def _row(row: Row) -> str | None:
    tokens, padded = row.tokens, row.padded
    if tokens is not None and padded is not None and padded < tokens:
        return f"padded: {padded} is less than the {tokens} tokens it holds"
    if row.classes and row.classes.strip(TOKEN_CLASSES):
        return f"classes: {row.classes!r} has letters that are none of {', '.join(TOKEN_CLASSES)}"
    return None
