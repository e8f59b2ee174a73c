"""Header and entries as text: what any YAML reader reads and, NaN and infinity aside, any JSON reader too."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from typing import Any

import msgspec

from mlxdiag.traces.types import Entry, Header

# YAML 1.1 readers take `1e-7` for text: the mantissa needs a dot, the exponent a sign.
_BARE_EXPONENT = re.compile(rb'"(?:[^"\\]|\\.)*"|(-?\d+)(\.\d+)?[eE]([-+]?)(\d+)')
_HAS_EXPONENT = re.compile(rb"\d[eE][-+\d]")
# JSON may hold these raw; YAML refuses them or takes them for line breaks.
_NOT_IN_YAML = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")
_NONFINITE = re.compile(r'"(?:[^"\\]|\\.)*"|(-?)(NaN|Infinity)')
_YAML_FLOATS = {"NaN": ".nan", "Infinity": ".inf"}


def entry_line(entry: Entry) -> bytes:
    """The entry's line with its `- ` and line break."""
    if not _may_hold_float(entry):
        # As most lines of a recording: JSON is YAML then, save for a few characters.
        return b"- " + _for_yaml(msgspec.json.format(_json(entry), indent=0)) + b"\n"
    return b"- " + _flow(entry, _floats(entry)) + b"\n"


def header_text(header: Header) -> bytes:
    """The header's lines, `steps:` included: one field a line, so that JSON decodes each value."""
    lines = [b"schema: " + header.schema.encode()]
    for name, value in msgspec.structs.asdict(header).items():
        if name != "schema" and value is not None:
            lines.append(name.encode() + b": " + _flow(value, _every_float(value)))
    return b"\n".join([*lines, b"steps:", b""])


def _flow(value: Any, floats: Iterator[Any]) -> bytes:
    if any(isinstance(one, float) and not math.isfinite(one) for one in floats):
        text = json.dumps(msgspec.to_builtins(value), ensure_ascii=False)
        data = _NONFINITE.sub(_yaml_float, text).encode("utf-8", "replace")
    else:
        data = msgspec.json.format(_json(value), indent=0)
    if _HAS_EXPONENT.search(data):
        data = _BARE_EXPONENT.sub(_with_dot_and_sign, data)
    return _for_yaml(data)


def _for_yaml(data: bytes) -> bytes:
    if not data.isascii() or b"\x7f" in data:
        data = _NOT_IN_YAML.sub(_escaped, data.decode()).encode()
    return data


def _may_hold_float(entry: Entry) -> bool:
    """Cheap, for it runs once a step while recording."""
    if entry.output or entry.config or entry.time is not None:
        return True
    return any(row.logprob is not msgspec.UNSET for row in entry.rows or ())


def _json(value: Any) -> bytes:
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:
        # Half of a surrogate pair, as Python makes of undecodable bytes: it has no UTF-8.
        text = json.dumps(msgspec.to_builtins(value), ensure_ascii=False)
        return text.encode("utf-8", "replace")


def _floats(entry: Entry) -> Iterator[Any]:
    """Where an entry can hold a float."""
    yield entry.time
    for row in entry.rows or ():
        yield row.logprob
    for output in entry.output or ():
        yield from (output.margin, output.logprob)
        if output.parity:
            yield from (output.parity.max_abs, output.parity.margin, output.parity.tolerance)
    if entry.config:
        yield from _every_float(entry.config)


def _every_float(value: Any) -> Iterator[Any]:
    if isinstance(value, float):
        yield value
    elif isinstance(value, msgspec.Struct):
        yield from _every_float(msgspec.structs.asdict(value))
    elif isinstance(value, dict):
        for one in value.values():
            yield from _every_float(one)
    elif isinstance(value, (list, tuple)):
        for one in value:
            yield from _every_float(one)


def _with_dot_and_sign(match: re.Match[bytes]) -> bytes:
    whole, fraction, sign, exponent = match.groups()
    if whole is None:
        return match.group()
    return whole + (fraction or b".0") + b"e" + (sign or b"+") + exponent.zfill(2)


def _yaml_float(match: re.Match[str]) -> str:
    return match.group(1) + _YAML_FLOATS[match.group(2)] if match.group(2) else match.group()


def _escaped(match: re.Match[str]) -> str:
    return f"\\u{ord(match.group()):04x}"
