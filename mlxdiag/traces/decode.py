"""From JSON-like objects to entries: unknown fields pruned, every error in the user's terms."""

from __future__ import annotations

import functools
import re
import types
import typing
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import msgspec

from mlxdiag.traces.types import Record

T = TypeVar("T", bound=Record)

NAMES = ("seq", "family")
"""Fields whose value is a name; one that somebody writes as a number is that number's text."""

_WHERE = re.compile(r" - at `\$\.?(.*)`$", re.DOTALL)
_NAMES = {"array": "list", "object": "mapping", "dict": "mapping"}


class BadEntry(Exception):
    """A value that does not fit the types; the text starts with the field path, `step` is the entry's."""

    def __init__(self, reason: str, value: Any = None) -> None:
        super().__init__(reason)
        step = value.get("step") if isinstance(value, dict) else None
        self.step = step if isinstance(step, int) else None


def convert(value: Any, record: type[T], unknown: Callable[[str], None]) -> T:
    """`value` (dicts, lists, scalars) as a record; each unknown field is reported, by its path, and left out.

    Raises BadEntry naming the field.
    """
    if not isinstance(value, dict):
        raise BadEntry(f"expected a mapping, got {_kind(value)}")
    pruned = _prune(value, record, "", unknown)
    try:
        return msgspec.convert(pruned, record)
    except msgspec.ValidationError as error:
        raise BadEntry(_in_user_terms(str(error), pruned, record), value) from None
    except RecursionError:
        raise BadEntry("nested too deeply", value) from None


def _kind(value: Any) -> str:
    return "nothing" if value is None else _NAMES.get(type(value).__name__, type(value).__name__)


def _nested(record: type[Record]) -> dict[str, tuple[str, type[Record]]]:
    """Fields that hold records: name -> (one, list or dict, the record's type)."""
    if record not in _NESTED:
        found = {}
        for name, hint in typing.get_type_hints(record).items():
            for part in _parts(hint):
                origin, inner = typing.get_origin(part), typing.get_args(part)
                kind = {list: "list", dict: "dict"}.get(origin, "one") if origin else "one"
                target = inner[-1] if origin in (list, dict) else part
                if isinstance(target, type) and issubclass(target, Record):
                    found[name] = (kind, target)
        _NESTED[record] = found
    return _NESTED[record]


_NESTED: dict[type[Record], dict[str, tuple[str, type[Record]]]] = {}


def _parts(hint: Any) -> tuple[Any, ...]:
    union = typing.get_origin(hint) in (typing.Union, types.UnionType)
    return typing.get_args(hint) if union else (hint,)


def _prune(value: Any, record: type[Record], path: str, unknown: Callable[[str], None]) -> Any:
    if not isinstance(value, dict):
        return value
    nested, kept = _nested(record), {}
    for name, one in value.items():
        here = f"{path}.{name}" if path else name
        if name not in record.__struct_fields__:
            unknown(f"{here} ignored{_meant(name, record)}")
        elif name in NAMES and type(one) is int:
            kept[name] = str(one)
        elif name in nested:
            kept[name] = _prune_field(one, *nested[name], here, unknown)
        else:
            kept[name] = one
    return kept


@functools.lru_cache(256)
def _meant(name: str, record: type[Record]) -> str:
    import difflib

    close = difflib.get_close_matches(name, record.__struct_fields__, 1, 0.75)
    return f" (did you mean {close[0]}?)" if close else ""


def _prune_field(
    value: Any, kind: str, record: type[Record], path: str, unknown: Callable[[str], None]
) -> Any:
    if kind == "list" and isinstance(value, list):
        return [_prune(one, record, f"{path}[]", unknown) for one in value]
    if kind == "dict" and isinstance(value, dict):
        return {key: _prune(one, record, f"{path}.{key}", unknown) for key, one in value.items()}
    return _prune(value, record, path, unknown)


def _in_user_terms(text: str, value: Any, record: type[Record]) -> str:
    """msgspec's message as `attention[0].k: expected int, got str`."""
    where = _WHERE.search(text)
    reason = text[: where.start()] if where else text
    path = where.group(1) if where else ""
    if "[...]" in path:
        path = next(_real_paths(path, value, record), path)
    hint = _hint(path, record)
    if reason.startswith("Invalid enum value"):
        allowed = ", ".join(_allowed(hint))
        reason = f"{reason.removeprefix('Invalid enum value ')} is none of {allowed}"
    else:
        reason = re.sub(r"`([^`]*)`", lambda match: _types(match.group(1)), reason)
        reason = reason[:1].lower() + reason[1:]
    return f"{path}: {reason}" if path else reason


def _types(names: str) -> str:
    kept = [_NAMES.get(name, name) for name in names.split(" | ") if name != "null"]
    return " or ".join(kept) if kept else "null"


def _real_paths(path: str, value: Any, record: type[Record]) -> Iterator[str]:
    """msgspec names no key of a mapping: find the one whose record alone does not convert."""
    outer, dot, inner = path.partition(".")
    if dot and "[" not in outer and isinstance(value, dict):
        kind, target = _nested(record).get(outer, ("", None))
        if kind != "dict" and target is not None:
            yield from (f"{outer}.{found}" for found in _real_paths(inner, value[outer], target))
            return
    name, _, rest = path.partition("[...]")
    kind, target = _nested(record).get(name, ("", None))
    if kind != "dict" or target is None:
        return
    for key, one in value[name].items():
        try:
            msgspec.convert(one, target)
        except msgspec.ValidationError:
            yield f"{name}.{key}{rest}"


def _hint(path: str, record: type[Record]) -> Any:
    """The declared type at a path such as `attention[0].cache`."""
    hint: Any = record
    for name in re.sub(r"\[[^\]]*\]", "", path).split("."):
        target = next(
            (one for one in _leaves(hint) if isinstance(one, type) and issubclass(one, Record)), None
        )
        if target is None:
            continue
        hint = typing.get_type_hints(target).get(name, hint)
    return hint


def _leaves(hint: Any) -> Iterator[Any]:
    """The types inside unions, lists and mappings."""
    inner = typing.get_args(hint)
    if not inner or typing.get_origin(hint) is typing.Literal:
        yield hint
    for one in inner if typing.get_origin(hint) is not typing.Literal else ():
        yield from _leaves(one)


def _allowed(hint: Any) -> list[str]:
    return [value for leaf in _leaves(hint) for value in typing.get_args(leaf) if isinstance(value, str)]
