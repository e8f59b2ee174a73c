"""Entries that contradict themselves: what no program, however faulty, can have done.

What a faulty program *can* do stays readable, for the rules to judge: a mask axis or a key count of zero or
less, a negative position, a trim that cuts more or less than was asked, counters that do not add up.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from mlxdiag.errors import UnreadableError
from mlxdiag.traces.types import TOKEN_CLASSES, Attention, Entry, Row, Tokens

PER_QUERY = ("first", "last", "visible")
BOUNDED = ("missing", "future", "padding", "foreign")


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
    return next(_contradictions(entry), None) if _may_contradict(entry) else None


def _may_contradict(entry: Entry) -> bool:
    """False for most entries, at once: this is asked of every line of every trace."""
    for row in entry.rows or ():
        if row.padded is not None or row.left_padding or (row.classes and row.classes.strip(TOKEN_CLASSES)):
            return True
    for call in entry.attention or ():
        if type(call.offset) is list or type(call.k) is list or type(call.rope) is list:
            return True
        if call.first is not None or call.last is not None or call.visible is not None or call.totals:
            return True
        if call.missing or call.future or call.padding or call.foreign:
            return True
    return entry.tokens is not None


def _contradictions(entry: Entry) -> Iterator[str]:
    for index, row in enumerate(entry.rows or ()):
        for reason in _row(row, entry):
            yield f"rows[{index}].{reason}"
    for index, call in enumerate(entry.attention or ()):
        for reason in chain(_lists(call, entry.rows), _visibility(call, entry.rows)):
            yield f"attention[{index}].{reason}"
    if entry.tokens is not None:
        for reason in _tokens(entry.tokens):
            yield f"tokens.{reason}"


def _row(row: Row, entry: Entry) -> Iterator[str]:
    tokens, padded = row.tokens or 0, row.padded
    if padded is not None and padded < tokens:
        yield f"padded: {padded} is less than the {tokens} tokens it holds"
    if row.classes and row.classes.strip(TOKEN_CLASSES):
        yield f"classes: {row.classes!r} has letters that are none of {', '.join(TOKEN_CLASSES)}"
    padding = row.left_padding or 0
    width = padded or max((call.q or 0 for call in entry.attention or ()), default=0)
    first = (row.phase or entry.phase) == "prefill" and row.offset in (None, -padding)
    if first and padding > 0 and width and padding + tokens > width:
        yield f"left_padding: {padding} and {tokens} tokens do not fit a prefill of {width}"


def _lists(call: Attention, rows: list[Row] | None) -> Iterator[str]:
    """Lists by row; where `vectors` tells their lengths, a wrong one is the program's fault, and a rule's."""
    if rows is None or call.vectors is not None:
        return
    for name in ("offset", "k", "rope"):
        value = getattr(call, name)
        if isinstance(value, list) and len(value) != len(rows):
            yield f"{name}: {len(value)} values for {len(rows)} rows"


def _visibility(call: Attention, rows: list[Row] | None) -> Iterator[str]:
    given = [(name, getattr(call, name)) for name in PER_QUERY if getattr(call, name) is not None]
    for name, value in given:
        if rows is not None and len(value) != len(rows):
            yield f"{name}: {len(value)} lists for {len(rows)} rows"
        if [len(one) for one in value] != [len(one) for one in given[0][1]]:
            yield f"{name}: not as long as {given[0][0]}"
    for name in BOUNDED:
        listed, total = getattr(call, name), (call.totals or {}).get(name)
        odd = next((one for one in listed or () if len(one) != 3), None)
        if odd is not None:
            yield f"{name}: {list(odd)} is no row, query and position"
        if listed is not None and total is not None and total < len(listed):
            yield f"totals.{name}: {total}, though {len(listed)} are listed"


def _tokens(tokens: Tokens) -> Iterator[str]:
    for index, (first, last) in enumerate(tokens.reserved or ()):
        if last < first:
            yield f"reserved[{index}]: ends at {last}, before it begins at {first}"
