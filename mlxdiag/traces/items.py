"""From lines to the items of the `steps:` list, one at a time, whatever YAML style each is written in."""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

ITEM = re.compile(rb"( *)-(?:[ \t]+|$)")
MARKER = re.compile(rb"(?:---|\.\.\.)(?:[ \t]|$)")
KEY = re.compile(rb"[\"']?([\w-]+)[\"']?\s*:(?:\s|$)")


class BadLine(Exception):
    """A line that cannot belong to the list of steps."""

    def __init__(self, reason: str, line: int) -> None:
        super().__init__(reason)
        self.reason = reason
        self.line = line


class Item(msgspec.Struct, frozen=True):
    """One list item: its text without the dash, and the line (from 1) where it starts."""

    text: bytes
    line: int

    @property
    def is_flow(self) -> bool:
        """Written as `{...}`."""
        return self.text.lstrip().startswith(b"{")


class Items:
    """Collects lines into items. `feed` gives back what a line completes, `flush` what the end completes."""

    def __init__(self) -> None:
        self.indent: int | None = None
        self._lines: list[bytes] = []
        self._start = 0
        self.ended = False
        """Whether a document marker was met, after which no item may follow."""

    @property
    def idle(self) -> bool:
        """Whether nothing is half collected and the list goes on."""
        return not self._lines and not self.ended

    def feed(self, line: bytes, number: int) -> Iterator[Item]:
        """Take one line without its line break. Raises BadLine."""
        content = line.strip()
        if not content or content.startswith(b"#"):
            if self._lines:
                self._lines.append(line)
            return
        if MARKER.match(line):
            yield from self.flush()
            self.ended = True
            return
        if self.ended:
            raise BadLine("text after the end of the document: one file holds one trace", number)
        match = ITEM.match(line)
        if match and self.indent in (None, len(match.group(1))):
            yield from self.flush()
            self.indent = len(match.group(1))
            # The dash becomes a blank, so that the lines below keep their columns.
            rest = line[match.end() :]
            self._lines, self._start = [b" " * match.end() + rest], number
            if rest.startswith(b"{") and rest.rstrip().endswith(b"}"):
                yield from self._closed()
        elif self._lines and (_indent(line) > (self.indent or 0) or content[:1] in (b"}", b"]")):
            self._lines.append(line)
        else:
            yield from self.flush()
            raise BadLine(_misplaced(line), number)

    def flush(self) -> Iterator[Item]:
        """The item that was being collected, if any."""
        if self._lines:
            item = Item(b"\n".join(self._lines), self._start)
            self._lines = []
            yield item

    def _closed(self) -> Iterator[Item]:
        """A flow mapping that ends on its first line need not wait for the next item."""
        if balanced(self._lines[0]):
            yield from self.flush()


def balanced(text: bytes) -> bool:
    """Whether a flow text closes every bracket that it opens, quoted text aside."""
    bare = re.sub(rb'"(?:[^"\\]|\\.)*"|\'(?:[^\']|\'\')*\'', b"", text)
    return bare.count(b"{") <= bare.count(b"}") and bare.count(b"[") <= bare.count(b"]")


def _indent(line: bytes) -> int:
    return len(line) - len(line.lstrip(b" "))


def _misplaced(line: bytes) -> str:
    key = KEY.match(line)
    if key:
        name = key.group(1).decode(errors="replace")
        return f"`{name}:` after the steps: header fields go before `steps:`"
    return "not part of the list of steps: each begins with `- `, its other lines are indented deeper"
