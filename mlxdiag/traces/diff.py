"""The first step and field where two traces part."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import zip_longest
from typing import Any

import msgspec
from msgspec import UNSET

from mlxdiag.traces.stream import Stream
from mlxdiag.traces.types import Entry, Header, Trace

IGNORED = ("time", "note")
HEADER_FIELDS = ("scheduler", "model")
"""Of the header: what shapes a run. Where, when and by whom it was recorded may differ freely."""
SHORT = 8


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """Values are JSON-like; `msgspec.UNSET` where a side lacks the field (the entry, if `field` is empty)."""

    index: int | None
    """Of the entry, from 0; None for the header."""
    step: int | None
    field: str
    """A path such as `attention[0].k`."""
    left: Any
    right: Any


def first_difference(
    left: Trace | Stream,
    right: Trace | Stream,
    *,
    ignore: Iterable[str] = IGNORED,
    common: bool = False,
    header: bool = True,
) -> Difference | None:
    """None where the traces tell the same. Entries are paired in order and neither trace is held in memory.

    Emitted ids that either side relabelled agree when one relabelling maps all of them onto the other side's.
    `ignore` names fields at any depth. With `common`, a field that one side did not observe is no difference.
    Without `header`, only entries count.
    Raises UnreadableError when a stream breaks.
    """
    raw = left.header.ids == right.header.ids == "raw"
    compare = _Comparison(frozenset(ignore), common, raw)
    heads = (_head(left.header), _head(right.header)) if header else ({}, {})
    for found in compare.values("header", *heads):
        return Difference(index=None, step=None, field=found[0], left=found[1], right=found[2])
    for index, (one, other) in enumerate(zip_longest(_entries(left), _entries(right))):
        for path, here, there in compare.entries(one, other):
            step = next((entry.step for entry in (one, other) if entry and entry.step is not None), None)
            return Difference(index=index, step=step, field=path, left=here, right=there)
    return None


def _entries(trace: Trace | Stream) -> Iterable[Entry]:
    return trace.entries if isinstance(trace, Trace) else trace


def _head(header: Header) -> dict[str, Any]:
    fields = _json_like(header)
    return {name: fields[name] for name in HEADER_FIELDS if name in fields}


Found = tuple[str, Any, Any]


class _Comparison:
    """Holds the relabelling found so far: left to right and back."""

    def __init__(self, ignore: frozenset[str], common: bool, raw: bool) -> None:
        self._ignore = ignore
        self._common = common
        self._raw = raw
        self._there: dict[Any, Any] = {}
        self._back: dict[Any, Any] = {}

    def entries(self, left: Entry | None, right: Entry | None) -> Iterator[Found]:
        """The differences of two entries, in the order of the fields."""
        if left is None or right is None:
            yield (
                "",
                UNSET if left is None else _json_like(left),
                UNSET if right is None else _json_like(right),
            )
        elif left != right or _holds_ids(left):
            yield from self.values("", _json_like(left), _json_like(right))

    def values(self, path: str, left: Any, right: Any) -> Iterator[Found]:
        """The differences of two JSON-like values."""
        if isinstance(left, dict) and isinstance(right, dict):
            for name in [*left, *(name for name in right if name not in left)]:
                if name not in self._ignore:
                    yield from self._field(path, name, left.get(name, UNSET), right.get(name, UNSET))
        elif _itemwise(left) and _itemwise(right):
            for index, (one, other) in enumerate(zip_longest(left, right, fillvalue=UNSET)):
                yield from self.values(f"{path}[{index}]", one, other)
        elif left != right and not (left != left and right != right):
            # NaN equals NaN here: both sides saw the same.
            yield path, left, right

    def _field(self, path: str, name: str, left: Any, right: Any) -> Iterator[Found]:
        here = f"{path}.{name}" if path else name
        if left is UNSET or right is UNSET:
            if not self._common:
                yield here, left, right
        elif name == "ids" and not self._raw:
            yield from self._relabelled(here, left, right)
        elif name == "argmax" and not self._raw:
            if not self._agree(left, right):
                yield here, left, right
        else:
            yield from self.values(here, left, right)

    def _relabelled(self, path: str, left: Any, right: Any) -> Iterator[Found]:
        if not isinstance(left, list) or not isinstance(right, list):
            yield from self.values(path, left, right)
            return
        for index, (one, other) in enumerate(zip_longest(left, right, fillvalue=UNSET)):
            if UNSET in (one, other) or not self._agree(one, other):
                yield f"{path}[{index}]", one, other

    def _agree(self, left: Any, right: Any) -> bool:
        return bool(
            self._there.setdefault(left, right) == right and self._back.setdefault(right, left) == left
        )


def _holds_ids(entry: Entry) -> bool:
    return any(row.ids for row in entry.rows or ()) or any(
        one.argmax is not None for one in entry.output or ()
    )


def _itemwise(value: Any) -> bool:
    """Lists to walk; a short list of numbers, such as a shape, reads better whole."""
    return isinstance(value, list) and (
        len(value) > SHORT or any(isinstance(one, (dict, list)) for one in value)
    )


def _json_like(value: Any) -> Any:
    """Records as mappings and tuples as lists, NaN kept."""
    if isinstance(value, msgspec.Struct):
        return _json_like(msgspec.to_builtins(value))
    if isinstance(value, dict):
        return {name: _json_like(one) for name, one in value.items()}
    return [_json_like(one) for one in value] if isinstance(value, (list, tuple)) else value
