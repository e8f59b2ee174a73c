"""Lines as records: a log entry that was wrapped is one record again, a JSON document is its value."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from mlxdiag.traces.importers.text import LONGEST_LINE

_MOST_LINES = 400
"""Of a wrapped log entry: a dump of a scheduler has some dozens."""
_LONGEST_JOINED = 1 << 12
"""Characters of a wrapped log line."""
_LONGEST_DUMP = 1 << 18
_LONGEST_DOCUMENT = 64 << 20
_DEEPEST = 200

_HEAD = re.compile(
    r"\s*(?:\[?\d{4}-\d\d-\d\d[T ]\d\d:|time=\d{4}-|data:|event:|Traceback \(|File \"|slot |srv |llama_|"
    r"(?:\(\w[\w .=]*\) )?(?:TRACE|DEBUG|INFO|WARN|WARNING|ERROR|CRITICAL)\b|\[mlxcel\]|\[LAYER|libc\+\+abi|"
    r"terminate called|MLX/ErrorHandler|\d+\.\d+\.\d+ [A-Z] |thread '|[{]\")"
)
"""How a record begins in the formats of this folder: such a line never continues another."""

_SPAN = re.compile(r"\b(?:prefill|chunked_prefill_start|chunked_prefill_continue|speculative_slice_round)\{")
_WRAPPING = re.compile(r"trim_mask_to_keys|mask_len=|mlxcel::|\[mlxcel\]|chunked_prefill_|Chunked prefill:")
_FIELD = re.compile(r"\b(mask_len|key_len|query_len|seq_id|offset|total|prompt_len|chunk_size|cached)=")
_TOLD = re.compile(r"discarding caller mask|Chunked prefill:|\bchunk \d+\.\.")
_DUMP = re.compile(r"SchedulerOutput\(|RequestOutput\(")
_TOLD_ALL = re.compile(r"key_len=\d+")


_JSON_HEAD = re.compile(r"\s*(?:\{|\[\s*(?:[{\[\"]|$))")
_JSON_LINE = re.compile(r"\s*(?:[\"{}\[\],:\d-]|true|false|null|NaN|Infinity|$)")
"""What a line inside a JSON document begins with; a timestamp, which does too, is told by _HEAD."""


class Record(msgspec.Struct, frozen=True):
    """One log entry, or one JSON value."""

    text: str
    value: Any = None
    """The decoded JSON value; None where the record is text."""
    prefix: str = ""
    """`data` for a server-sent event."""


def records(lines: Iterable[str]) -> Iterator[Record]:
    """Group `lines`; every line belongs to exactly one record, and each is looked at a bounded number of
    times."""
    pending = ""
    count = 0
    source = _Lines(lines)
    for line in source:
        if pending and count < _MOST_LINES and _continues(pending, line):
            pending, count = _joined(pending, line), count + 1
            continue
        if pending:
            yield Record(pending[:LONGEST_LINE])
            pending = ""
        if line.startswith("data:"):
            yield _event(line)
        elif _JSON_HEAD.match(line):
            yield from _document(line, source)
        elif line.endswith(": {") and _HEAD.match(line):
            # A body, printed over many lines behind the head of a log line.
            yield Record(line[:-1][:LONGEST_LINE])
            yield from _document("{", source)
        elif line.endswith("}") and ': {"' in line and _HEAD.match(line):
            yield from _with_body(line)
        elif _may_continue(line):
            pending, count = line, 1
        elif line.strip():
            yield Record(line[:LONGEST_LINE])
    if pending:
        yield Record(pending[:LONGEST_LINE])


class _Lines:
    """An iterator that takes one line back."""

    def __init__(self, lines: Iterable[str]) -> None:
        self._lines = iter(lines)
        self._back: list[str] = []

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        return self._back.pop() if self._back else next(self._lines)

    def back(self, line: str) -> None:
        self._back.append(line)


def _joined(before: str, line: str) -> str:
    glue = "" if before.endswith("::") else " "
    return before + glue + line.strip()


def _may_continue(line: str) -> bool:
    return bool(_WRAPPING.search(line) or _DUMP.search(line))


def _continues(before: str, line: str) -> bool:
    """Whether `line` is the rest of `before`, by what `before` still lacks or by what only `line` has."""
    if not line.strip() or _HEAD.match(line):
        return False
    if _DUMP.search(before):
        return len(before) < _LONGEST_DUMP and before.count("(") > before.count(")")
    if len(before) > _LONGEST_JOINED:
        return False
    if before.count("{") > before.count("}") or before.endswith(":"):
        return True
    if "trim_mask_to_keys" in before and not _TOLD_ALL.search(before):
        return True
    fresh = set(_FIELD.findall(line))
    if fresh and not fresh & set(_FIELD.findall(before)):
        return True
    if _SPAN.search(line):
        return not _SPAN.search(before)
    return bool(_TOLD.search(line)) and not _TOLD.search(before)


def _with_body(line: str) -> Iterator[Record]:
    """A log line that ends in a JSON body: its head and the body, or the line where that is no JSON."""
    head, _, body = line.partition(': {"')
    value = _decoded('{"' + body)
    yield Record((line if value is None else head)[:LONGEST_LINE])
    if value is not None:
        yield Record("", value)


def _event(line: str) -> Record:
    """A server-sent event, which is one line."""
    value = _decoded(line[5:].strip())
    return Record(line[:LONGEST_LINE] if value is None else "", value, "data")


def _document(line: str, source: _Lines) -> Iterator[Record]:
    """JSON that begins on `line`, over as many lines as it takes; what is no JSON stays text."""
    value = _decoded(line)
    if value is not None:
        yield Record("", value)
        return
    parts, size, depth = [line], len(line), _Depth()
    depth.feed(line)
    while depth.open and size < _LONGEST_DOCUMENT:
        more = next(source, None)
        if more is None:
            break
        if not _JSON_LINE.match(more) or (_HEAD.match(more) and not more.lstrip().startswith("{")):
            source.back(more)
            break
        parts.append(more)
        size += len(more)
        depth.feed(more)
    value = _decoded("\n".join(parts)) if len(parts) > 1 else None
    if value is not None:
        yield Record("", value)
        return
    for part in parts:
        value = _decoded(part) if part[:1] == "{" else None
        if value is not None:
            yield Record("", value)
        elif part.strip():
            yield Record(part[:LONGEST_LINE])


def _decoded(text: str) -> Any:
    """The JSON value, if it is an object or a list; Python's NaN and Infinity are taken for what they are."""
    if not text.endswith(("}", "]")):
        return None
    try:
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        value = _python_json(text)
    return value if isinstance(value, dict | list) and value else None


def _python_json(text: str) -> Any:
    if "NaN" not in text and "Infinity" not in text:
        return None
    import json

    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


class _Depth:
    """How many brackets are open, strings aside, over the lines fed so far."""

    _STEP = re.compile(r'"(?:[^"\\]|\\.)*"?|[{}\[\]]')

    def __init__(self) -> None:
        self.open = 0

    def feed(self, line: str) -> None:
        for found in self._STEP.finditer(line):
            text = found.group()
            if text in "{[":
                self.open = min(self.open + 1, _DEEPEST)
            elif text in "}]":
                self.open = max(self.open - 1, 0)
