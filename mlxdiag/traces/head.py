"""The head of a trace file: where it ends, what it says, and whether this version can read on."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import islice
from typing import Any

import msgspec

from mlxdiag.errors import UnreadableError
from mlxdiag.traces.blocks import BLOCK, Blocks
from mlxdiag.traces.decode import BadEntry, convert
from mlxdiag.traces.types import SCHEMA, Header

_STEPS = re.compile(rb"^(?:steps|\"steps\"|'steps')[ \t]*:[ \t]*(?:#[^\n]*)?\r?(?:\n|\Z)", re.MULTILINE)
_KEY = re.compile(rb"^[\"']?[A-Za-z_][\w-]*[\"']?[ \t]*:(?:\s|\Z)", re.MULTILINE)
_ALIAS = re.compile(rb"^[^\"'#\n]*[\s\[{,]\*\w", re.MULTILINE)
_LINE = re.compile(r"([a-z_]+): (\S.*)")
_SCHEMA = re.compile(r"mlxdiag\.trace/(\d+)(?:\.(\d+))?")
_MAJOR, _MINOR = 1, 0
_BOM = b"\xef\xbb\xbf"
_SNIFFED = 4096
_LARGEST_HEAD = 16 << 20
_LARGEST_DOCUMENT = 16 << 20
_OTHERS = {
    b"PK\x03\x04": "a zip archive, not a trace",
    b"\xff\xfe": "UTF-16 text; save it as UTF-8",
    b"\xfe\xff": "UTF-16 text; save it as UTF-8",
    b"\x1f\x8b": "compressed with gzip; unpack it, or compress it with zstd",
}


class Front(msgspec.Struct):
    """What was read to know the header: its fields, and where the entries are."""

    fields: dict[str, Any]
    rest: bytes = b""
    """What was already read of the lines after `steps:`."""
    lines: int = 0
    """Lines up to and with `steps:`."""
    steps: list[Any] | None = None
    """The entries as objects, where the whole file had to be read as one document."""


def read(blocks: Blocks) -> Front:
    """Read up to the first entry. Raises UnreadableError."""
    data, match, searched = b"", None, 0
    for block in blocks:
        data = (data + block).removeprefix(_BOM)
        match = _STEPS.search(data, searched)
        searched = data.rfind(b"\n") + 1
        _check_is_text(data[: match.start()] if match else data, blocks.name)
        if match and match.group().endswith(b"\n"):
            break
        if len(data) > _LARGEST_HEAD:
            raise UnreadableError(f"{blocks.name}: no line `steps:` in the first {_LARGEST_HEAD >> 20} MiB")
    if not data:
        raise UnreadableError(f"{blocks.name}: is empty, not a trace")
    if match is None:
        return _whole(data, blocks.name)
    if _needs_whole(data, match.end()) and not blocks.follow:
        data += b"".join(islice(blocks, _LARGEST_DOCUMENT // BLOCK))
        more = next(iter(blocks), b"")
        try:
            if not more:
                return _whole(data, blocks.name)
        except UnreadableError:
            # Then the reader of items finds the line that is wrong, and the entries before it.
            pass
        data += more
    front = data[: match.end()]
    fields = parse_fields(_text(data[: match.start()], blocks.name), blocks.name)
    return Front(fields, data[match.end() :], front.count(b"\n"))


def _needs_whole(data: bytes, steps: int) -> bool:
    """Whether a header field follows the steps, or an anchor may be used in another entry."""
    after = _KEY.search(data, steps) or _ALIAS.search(data)
    return bool(after) and not _STEPS.search(data, steps)


def _check_is_text(data: bytes, name: str) -> None:
    for magic, what in _OTHERS.items():
        if data.startswith(magic):
            raise UnreadableError(f"{name}: {what}")
    if b"\0" in data[:_SNIFFED]:
        raise UnreadableError(f"{name}: a binary file, not a trace")


def _text(data: bytes, name: str) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise UnreadableError(
            f"{name}: line {line}: not UTF-8 text (byte 0x{data[error.start]:02x}): not a trace"
        ) from None


def _whole(data: bytes, name: str) -> Front:
    """A file without a line `steps:`: one JSON object, one flow mapping, or an indented document."""
    text = _text(data, name)
    try:
        fields = msgspec.json.decode(text, type=dict[str, Any])
    except (msgspec.MsgspecError, RecursionError):
        fields = _parse_yaml(text, name)
    if "steps" not in fields:
        missing = _lacks(fields)
        raise UnreadableError(f"{name}: not a trace: {missing}")
    steps = fields.pop("steps")
    if not isinstance(steps, list | None):
        raise UnreadableError(f"{name}: steps: expected a list, got {type(steps).__name__}")
    return Front(fields, steps=steps or [])


def _lacks(fields: dict[str, Any]) -> str:
    kind = fields.get("schema")
    if kind is None:
        return f"expected `schema: {SCHEMA}` and `steps:`"
    if isinstance(kind, str) and kind.startswith("mlxdiag.audit/"):
        return f"it is an audit ({kind}), which `mlxdiag report` shows"
    return "`steps:` is missing"


def parse_fields(text: str, name: str) -> dict[str, Any]:
    """The text before `steps:` as a mapping, without YAML where every value is JSON."""
    fields: dict[str, Any] = {}
    for number, line in enumerate(text.splitlines(), 1):
        match = _LINE.fullmatch(line)
        if not match:
            return _parse_yaml(text, name)
        key, value = match.groups()
        try:
            fields[key] = (
                value if key == "schema" and _SCHEMA.fullmatch(value) else msgspec.json.decode(value)
            )
        except RecursionError:
            raise UnreadableError(f"{name}: header: {key}: nested too deeply (line {number})") from None
        except msgspec.DecodeError:
            return _parse_yaml(text, name)
    return fields


def _parse_yaml(text: str, name: str) -> dict[str, Any]:
    from mlxdiag.traces import yaml_text

    try:
        fields = yaml_text.load(text)
    except yaml_text.BadYaml as error:
        raise UnreadableError(
            f"{name}: line {error.line + 1}: not readable as YAML: {error.reason}"
        ) from None
    if fields is None:
        return {}
    if not isinstance(fields, dict):
        raise UnreadableError(f"{name}: not a trace: expected `schema: {SCHEMA}` and `steps:`")
    return fields


def build(fields: dict[str, Any], name: str, warn: Callable[[str], None], needs_schema: bool) -> Header:
    """The header of these fields. Raises UnreadableError for another version or a wrong type."""
    if "schema" not in fields and needs_schema:
        raise UnreadableError(f"{name}: not a trace: the line `schema: {SCHEMA}` is missing")
    _check_version(fields.get("schema", SCHEMA), name, warn)
    try:
        return convert(fields, Header, lambda path: warn(f"{name}: header: unknown field {path}"))
    except BadEntry as error:
        raise UnreadableError(f"{name}: header: {error}") from None


def _check_version(schema: Any, name: str, warn: Callable[[str], None]) -> None:
    match = _SCHEMA.fullmatch(schema) if isinstance(schema, str) else None
    if not match:
        raise UnreadableError(f"{name}: header: schema: {schema!r} is not {SCHEMA!r}: not a trace of mlxdiag")
    major, minor = int(match.group(1)), int(match.group(2) or 0)
    if major != _MAJOR:
        raise UnreadableError(
            f"{name}: header: schema: {schema} is another version than {SCHEMA}, which this mlxdiag reads;"
            " use a matching mlxdiag"
        )
    if minor > _MINOR:
        warn(f"{name}: header: {schema} is newer than {SCHEMA}: what this mlxdiag does not know is ignored")
