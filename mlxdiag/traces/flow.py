"""One item of the steps as an entry: JSON first, then YAML."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import msgspec

from mlxdiag.traces.decode import convert
from mlxdiag.traces.items import Item
from mlxdiag.traces.types import Entry

DECODER = msgspec.json.Decoder(Entry)

_NONFINITE = re.compile(r'"(?:[^"\\]|\\.)*"|(-?)\.(nan|inf)\b', re.IGNORECASE)
_PYTHON = {"nan": "NaN", "inf": "Infinity"}
_STEP = re.compile(r"[\"']?\bstep\b[\"']?\s*:\s*(\d+)")
_FIELD = re.compile(r"[\"']?\b([a-z_]+)\b[\"']?\s*:")


class Unparsed(Exception):
    """Neither JSON nor YAML. `line` counts from 1 in the file; `step` and `field` are what could be told."""

    def __init__(self, reason: str, line: int, text: str = "", position: int | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.line = line
        step = _STEP.search(text)
        self.step = int(step.group(1)) if step else None
        fields = _FIELD.findall(text[:position])
        self.field: str | None = fields[-1] if fields else None


def decode_item(item: Item, unknown: Callable[[str], None]) -> Entry:
    """The entry; unknown fields are reported by path and left out. Raises Unparsed, BadEntry."""
    try:
        return DECODER.decode(item.text)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return convert(_objects(item), Entry, unknown)


def _objects(item: Item) -> Any:
    try:
        text = item.text.decode("utf-8")
    except UnicodeDecodeError as error:
        readable = item.text[: error.start].decode("utf-8")
        reason = f"not UTF-8 text (byte 0x{item.text[error.start]:02x})"
        raise Unparsed(reason, item.line + readable.count("\n"), readable) from None
    if not text.strip():
        raise Unparsed("an empty item", item.line)
    slip = None
    if item.is_flow:
        try:
            return json.loads(_NONFINITE.sub(_python_float, text))
        except json.JSONDecodeError as error:
            slip = error
        except RecursionError:
            raise Unparsed("nested too deeply", item.line, text) from None
    return _yaml(item, text, slip)


def _yaml(item: Item, text: str, slip: json.JSONDecodeError | None) -> Any:
    from mlxdiag.traces import yaml_text

    try:
        return yaml_text.load(text)
    except yaml_text.BadYaml as error:
        if slip and text.lstrip().startswith('{"'):
            reason, line, position = f"{slip.msg.lower()} at column {slip.colno}", slip.lineno - 1, slip.pos
        else:
            reason, line = error.reason, error.line
            position = sum(len(one) + 1 for one in text.split("\n")[: line + 1])
        raise Unparsed(f"not readable: {reason}", item.line + line, text, position) from None


def _python_float(match: re.Match[str]) -> str:
    """`.nan` and `.inf`, as YAML spells them, for Python's JSON decoder; quoted text stays as it is."""
    if not match.group(2):
        return match.group()
    return match.group(1) + _PYTHON[match.group(2).lower()]
