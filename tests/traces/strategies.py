"""Random traces, derived from the declared types so that a new field is covered at once."""

from __future__ import annotations

import types
import typing
from typing import Any, Literal

from hypothesis import strategies as st
from msgspec import UNSET, Meta, UnsetType

from mlxdiag.traces.checks import contradiction
from mlxdiag.traces.types import Entry, Header, Record, Trace

# No half surrogates: no file can hold them. Everything else must survive, line separators and controls too.
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
FLOATS = st.floats(allow_nan=False, allow_infinity=False)
JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | FLOATS | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)


def _of(hint: Any) -> st.SearchStrategy[Any]:
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return st.one_of([_of(one) for one in inner])
    if origin is typing.Annotated:
        least = next(one.ge for one in inner if isinstance(one, Meta))
        return st.integers(least, 2**40)
    if origin is Literal:
        return st.sampled_from(inner)
    if origin is list:
        return st.lists(_of(inner[0]), max_size=3)
    if origin is dict:
        return st.dictionaries(TEXT, _of(inner[1]), max_size=3)
    if origin is tuple:
        return (
            st.lists(_of(inner[0]), max_size=3).map(tuple)
            if inner[1:] == (...,)
            else st.tuples(*map(_of, inner))
        )
    if isinstance(hint, type) and issubclass(hint, Record):
        return records(hint)
    return _SCALARS[hint]


_SCALARS: dict[Any, st.SearchStrategy[Any]] = {
    int: st.integers(-(2**40), 2**40),
    bool: st.booleans(),
    str: TEXT,
    float: FLOATS,
    type(None): st.none(),
    UnsetType: st.just(UNSET),
    Any: JSON,
}


def records(record: type[Any]) -> st.SearchStrategy[Any]:
    """Some of the record's fields, each of its declared type."""
    hints = typing.get_type_hints(record, include_extras=True)
    return st.deferred(
        lambda: st.fixed_dictionaries({}, optional={name: _of(hint) for name, hint in hints.items()})
    ).map(lambda fields: record(**fields))


def _not_contradicting(entry: Entry) -> Entry:
    if contradiction(entry) is None:
        return entry
    return Entry(step=entry.step, phase=entry.phase, config=entry.config, output=entry.output)


entries = records(Entry).map(_not_contradicting)
headers = records(Header).map(lambda header: _with_schema(header))
traces = st.builds(Trace, headers, st.lists(entries, max_size=4))


def _with_schema(header: Header) -> Header:
    import msgspec

    return msgspec.structs.replace(header, schema="mlxdiag.trace/1")
