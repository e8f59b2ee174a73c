"""Bytes of a log as lines: decoded, without colours, of bounded length."""

from __future__ import annotations

import re
from collections.abc import Iterator

LONGEST_LINE = 1 << 18
"""Characters of a line of text that patterns look at; a longer one is no log line."""

_ESCAPES = re.compile(r"\x1b(?:\[[0-9;:?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\^_])")
_LOST_ESCAPES = re.compile(r"\[\d{1,3}(?:;\d{1,3})*m")
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
_QUOTED = re.compile(r"^(?:> ?)+")
"""A line quoted in an issue or a mail."""
_COMPOSE = re.compile(r"^[\w.-]{1,64} +\| ")
"""What docker compose puts in front of every line."""
_BYTE_ORDER = ((b"\xff\xfe", "utf-16-le"), (b"\xfe\xff", "utf-16-be"), (b"\xef\xbb\xbf", "utf-8"))


def lines_of(data: bytes) -> Iterator[str]:
    """The lines of a file, cleaned; bytes that are no text become U+FFFD."""
    for mark, encoding in _BYTE_ORDER:
        if data.startswith(mark):
            text = data[len(mark) :].decode(encoding, "replace")
            break
    else:
        text = data.decode("utf-8", "replace")
    for line in text.split("\n"):
        yield clean(line)


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
