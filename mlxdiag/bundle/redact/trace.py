"""A trace without anything of the reporter's: rebuilt from the fields that `fields` lists."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, TypeVar

import msgspec
from msgspec import UNSET

from mlxdiag.bundle.redact import fields, special
from mlxdiag.bundle.redact.fields import FIELDS
from mlxdiag.bundle.redact.message import Messages
from mlxdiag.bundle.redact.settings import Settings, are_indexes
from mlxdiag.bundle.redact.wordlists import listed
from mlxdiag.traces.encode import entry_line, header_text
from mlxdiag.traces.types import TOKEN_CLASSES, Header, Tokens, Trace

MOST_AXES = 8
"""Of a shape."""

_ROW = re.compile(r"\d{3,}[\s,;]+\d{3,}")
"""Two numbers in a row: no note that this program writes has them, and token ids come like that."""
_FOLDER = re.compile(r".*[/\\]", re.DOTALL)
_NOT_FINITE = re.compile(r"[-+]?(?:nan|inf|infinity)\Z", re.IGNORECASE)
_S = TypeVar("_S")


class Labels:
    """Numbers names in the order in which they come: `seq-1`, `seq-2`."""

    def __init__(self, prefix: str, messages: Messages) -> None:
        self._prefix = prefix
        self._own = re.compile(rf"{re.escape(prefix)}\d{{1,6}}\Z")
        self._messages = messages
        self._labels: dict[str, str] = {}

    def of(self, name: str) -> str:
        """The label of a name; one that already looks like a label stays unless it is taken."""
        label = self._labels.get(name)
        if label is None:
            taken = set(self._labels.values())
            own = self._own.match(name) is not None and name not in taken
            label = name if own else self._free(taken)
            self._labels[name] = label
            if label != name:
                self._messages.ledger.take("relabelled", name)
        return label

    def _free(self, taken: set[str]) -> str:
        number = len(self._labels) + 1
        while f"{self._prefix}{number}" in taken:
            number += 1
        return f"{self._prefix}{number}"


class Redactor:
    """Stateful, one a trace: labels and the first time are remembered from entry to entry."""

    def __init__(self, messages: Messages, *, with_tokens: bool = False) -> None:
        self.messages = messages
        self.settings = Settings(messages)
        self.with_tokens = with_tokens
        self._raw = False
        self._start: float | None = None
        self._sequences = Labels("seq-", messages)
        self._models = Labels("m", messages)
        self._families = Labels("family-", messages)
        self._ids: dict[int, int] = {}
        self._notes = messages.apart(listed("notes.txt"))
        self._policies: dict[str, Callable[[Any], Any]] = {
            fields.NUMBER: _number,
            fields.NUMBERS: _numbers,
            fields.LAYERS: _layers,
            fields.SHAPE: _axes,
            fields.CHOICE: _choice,
            fields.CLASSES: _classes,
            fields.LOGPROB: _logprob,
            fields.SEQUENCE: self._sequences.of,
            fields.MODEL: self._models.of,
            fields.FAMILY: self._family,
            fields.NAME: self._name,
            fields.ARCHITECTURE: self._architecture,
            fields.TEXT: self._text,
            fields.NOTE: self._note,
            fields.IDS: self._relabelled,
            fields.TOKEN: self._token,
            fields.TIME: self._time,
            fields.COUNTS: self._counts,
            fields.CONFIG: self._config,
            fields.ENVIRONMENT: self._environment,
            fields.SPECIAL: self._special,
            fields.INSIDE: self._inside,
        }

    def header(self, header: Header) -> Header:
        """The header; the ids of what follows are no longer the model's own, unless they were asked for."""
        self._raw = header.ids == "raw"
        clean = self.record(header)
        kept = self.with_tokens and self._raw
        return msgspec.structs.replace(clean, ids=clean.ids if kept else None)

    def trace(self, trace: Trace) -> Trace:
        """The whole trace; its warnings name a file, so they stay behind."""
        header = self.header(trace.header)
        return Trace(header, [self.record(entry) for entry in trace.entries], (), trace.truncated)

    def record(self, record: _S) -> _S:
        """A record of the schema, with the fields that its table lists."""
        table = FIELDS.get(type(record), {})
        kept: dict[str, Any] = {}
        for name in record.__struct_fields__:  # type: ignore[attr-defined]
            value = getattr(record, name)
            if value is None or value is UNSET:
                if value is None and name in table:
                    kept[name] = None
                continue
            policy = table.get(name)
            if policy is None:
                self.messages.ledger.take("field", str(value) if isinstance(value, str) else "")
                continue
            clean = self._policies[policy](value)
            if clean is not None:
                kept[name] = clean
        return type(record)(**kept)

    def _family(self, name: str) -> str:
        return name if self.settings.name(name) is not None else self._families.of(name)

    def _name(self, name: str) -> str | None:
        if self.settings.name(name) is not None:
            return name
        self.messages.ledger.take("name", name)
        return None

    def _architecture(self, name: str) -> str | None:
        return name if self.settings.architecture(name) is not None else self._name(name)

    def _text(self, text: str) -> str | None:
        """Of digits without a word nothing: no program prints an error like that."""
        if text.strip() and not _is_spoken(text):
            self.messages.ledger.take("note", text)
            return None
        return self.messages.clean(text)

    def _note(self, text: str) -> str | None:
        """Such as this program's own importers write; of anything else nothing."""
        if self._notes.clean(text) == text and _is_spoken(text) and not _ROW.search(text):
            return text
        self.messages.ledger.take("note", text)
        return None

    def _relabelled(self, ids: list[int]) -> list[int]:
        if self._raw and self.with_tokens:
            return ids
        if self._raw:
            self.messages.ledger.take("raw-ids", count=len(ids))
        return [self._ids.setdefault(ident, len(self._ids) + 1) for ident in ids]

    def _token(self, ident: int) -> int | None:
        if self.with_tokens:
            return ident
        self.messages.ledger.take("token-ids")
        return None

    def _time(self, time: float) -> float:
        if self._start is None:
            self._start = time
            if time:
                self.messages.ledger.take("time")
        return round(time - self._start, 6)

    def _counts(self, counts: dict[str, int]) -> dict[str, int]:
        return {name: n for name, n in counts.items() if self._name(name) is not None}

    def _special(self, tokens: Tokens) -> Tokens | None:
        kept = self._raw and self.with_tokens
        return tokens if kept else special.clean(tokens, self.messages.ledger)

    def _config(self, value: dict[str, Any]) -> dict[str, Any] | None:
        return self.settings.mapping(value) or None

    def _environment(self, value: dict[str, Any]) -> dict[str, Any] | None:
        origin = value.get("of")
        if isinstance(origin, str):  # the file that was replayed: its folder is the reporter's own
            value = {**value, "of": _FOLDER.sub("", origin)}
        return self.settings.mapping(value, spoken=True) or None

    def _inside(self, value: Any) -> Any:
        if isinstance(value, list):
            return [self.record(one) for one in value]
        if isinstance(value, dict):
            return {self._family(name): self.record(one) for name, one in value.items()}
        return self.record(value)


def text(trace: Trace) -> bytes:
    """The file."""
    return header_text(trace.header) + b"".join(entry_line(entry) for entry in trace.entries)


def _is_spoken(text: str) -> bool:
    return any(c.isalpha() for c in text)


def _number(value: Any) -> Any:
    return value if isinstance(value, bool | int | float) else None


def _numbers(value: Any) -> Any:
    """Also the one word that stands in place of a mask's shape."""
    if isinstance(value, list | tuple):
        flat = all(isinstance(one, int | float | list | tuple) for one in value)
        return value if flat and all(_numbers(one) is not None for one in value) else None
    return value if isinstance(value, int | float) or value == "causal" else None


def _layers(value: Any) -> Any:
    return value if are_indexes(list(value)) else None


def _axes(value: Any) -> Any:
    """One shape or several; the one word that stands in place of a mask's shape is kept as well."""
    shapes = value if isinstance(value, list) else [value]
    return _numbers(value) if all(one == "causal" or len(one) <= MOST_AXES for one in shapes) else None


def _choice(value: Any) -> Any:
    return value


def _classes(value: str) -> str | None:
    return value if set(value) <= set(TOKEN_CLASSES) else None


def _logprob(value: Any) -> Any:
    return value if isinstance(value, int | float) or _NOT_FINITE.match(str(value)) else None
