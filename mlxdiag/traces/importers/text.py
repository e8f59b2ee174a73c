"""The bytes of a log as lines: decoded, without colours, of bounded length."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import BinaryIO

LONGEST_LINE = 1 << 18
"""Characters of a line of text that patterns look at; a longer one is no log line."""
LONGEST_BODY = 64 << 20
"""Bytes that are read as one line: a JSON document may be one."""

_ESCAPES = re.compile(r"\x1b(?:\[[0-9;:?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\^_])")
_LOST_ESCAPES = re.compile(r"\[\d{1,3}(?:;\d{1,3})*m")
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
_QUOTED = re.compile(r"^(?:> ?)+")
"""A line quoted in an issue or a mail."""
_COMPOSE = re.compile(r"^[\w.-]{1,64} +\| ")
"""What docker compose puts in front of every line."""
_WIDE = {b"\xff\xfe": "utf-16-le", b"\xfe\xff": "utf-16-be"}
_PACKED = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd", b"PK\x03\x04": "zip", b"BZh": "bzip2"}
_MARK = b"\xef\xbb\xbf"


class Packed(Exception):
    """The file is an archive or compressed; the text names the format."""


def lines_of(file: BinaryIO) -> Iterator[str]:
    """The lines of a log, cleaned, read as they are asked for; bytes that are no text become U+FFFD.

    Raises OSError where the file cannot be read, Packed where it is compressed.
    """
    first = file.readline(LONGEST_BODY)
    for mark, what in _PACKED.items():
        if first.startswith(mark):
            raise Packed(what)
    wide = _WIDE.get(first[:2])
    if wide is not None:
        yield from map(clean, (first + file.read())[2:].decode(wide, "replace").split("\n"))
        return
    line = first.removeprefix(_MARK)
    while line:
        yield clean(line.decode("utf-8", "replace").removesuffix("\n"))
        line = file.readline(LONGEST_BODY)


def clean(line: str) -> str:
    """Without colour codes (whole, or with their escape character lost in a paste) and control characters."""
    line = line.rstrip("\r")
    if "\r" in line:
        line = line[line.rindex("\r") + 1 :]  # a progress bar: what stands at the end is what was seen
    if "\x1b" in line:
        line = _ESCAPES.sub("", line)
    if "[0m" in line:
        line = _LOST_ESCAPES.sub("", line)
    line = _CONTROLS.sub("", line)
    if line.startswith(">"):
        line = _QUOTED.sub("", line)
    if " | " in line[:80]:
        line = _COMPOSE.sub("", line)
    return line.rstrip()
