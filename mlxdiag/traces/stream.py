"""A trace an entry at a time, in constant memory."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from types import TracebackType
from typing import Any

import msgspec

from mlxdiag.errors import UnreadableError
from mlxdiag.traces import head
from mlxdiag.traces.blocks import Blocks
from mlxdiag.traces.checks import contradiction, place
from mlxdiag.traces.decode import BadEntry, convert
from mlxdiag.traces.flow import DECODER, Unparsed, decode_item
from mlxdiag.traces.items import BadLine, Item, Items
from mlxdiag.traces.types import Entry, Header, Trace

LONGEST_LINE = 64 << 20


class CutOff(Exception):
    """The last line stops in the middle."""


class Stream:
    """Iterates the entries once, front to back; yields every entry before a broken one, then raises.

    `header` is known from the start; `warnings` and `truncated` are complete when the iteration ends.
    Raises UnreadableError: on construction for the header, on iteration for an entry.
    """

    header: Header

    def __init__(self, blocks: Blocks, needs_schema: bool = True) -> None:
        self.name = blocks.name
        self.warnings: list[str] = []
        self.truncated = False
        self._blocks = blocks
        self._items = Items()
        self._line = 0
        self._count = 0
        self._unknown: set[str] = set()
        front = head.read(blocks)
        self.header = head.build(front.fields, self.name, self.warnings.append, needs_schema)
        self._line = front.lines
        self._by_lines = front.steps is None and not blocks.compressed
        objects = front.steps
        self._entries = self._from_lines(front.rest) if objects is None else self._from_objects(objects)

    def __iter__(self) -> Iterator[Entry]:
        return self._entries

    def __enter__(self) -> Stream:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        self._blocks.close()

    @property
    def indent(self) -> int | None:
        """After the last entry: blanks before each `- `, or None where no line can follow the last one."""
        return self._items.indent or 0 if self._items.idle and self._by_lines else None

    def collect(self) -> Trace:
        """What is left, in memory."""
        entries = list(self)
        return Trace(self.header, entries, tuple(self.warnings), self.truncated)

    def _from_objects(self, steps: list[Any]) -> Iterator[Entry]:
        for value in steps:
            found: list[str] = []
            try:
                entry = convert(value, Entry, found.append)
            except BadEntry as error:
                raise self._error(error.step, str(error)) from None
            yield self._checked(entry, found)

    def _from_lines(self, rest: bytes) -> Iterator[Entry]:
        tail = b""
        for block in chain((rest,), self._blocks):
            tail += block
            cut = tail.rfind(b"\n") + 1
            if cut:
                for entry in self._whole_lines(tail[:cut]):
                    yield entry
                    if self._blocks.follow and entry.kind == "end":
                        return
                tail = tail[cut:]
            elif len(tail) > LONGEST_LINE:
                raise self._error(None, f"a line of more than {LONGEST_LINE >> 20} MiB", self._line + 1)
        yield from self._last_line(tail)
        self.truncated = self.truncated or self._blocks.torn

    def _whole_lines(self, data: bytes) -> Iterator[Entry]:
        """One decoder call a line while each is `- {json}`; a line that is not goes through the items."""
        items = self._items
        indent = len(data) - len(data.lstrip(b" ")) if items.indent is None else items.indent
        dash = b" " * indent + b"- "
        if not items.idle or not data.startswith(dash):
            yield from self._item_by_item(data)
            return
        items.indent = indent
        decode = DECODER.decode
        texts = data[len(dash) : -1].split(b"\n" + dash)
        counted = 0  # of the texts: how many `self._line` includes
        for index, text in enumerate(texts):
            try:
                entry = decode(text)
            except (msgspec.MsgspecError, ValueError, RecursionError):
                self._line += _lines(texts[counted:index])
                counted = index + 1
                yield from self._item_by_item(dash + text + b"\n", complete=index + 1 < len(texts))
                if not items.ended or index + 1 == len(texts):
                    continue
                yield from self._item_by_item(b"".join(dash + one + b"\n" for one in texts[index + 1 :]))
                return
            reason = contradiction(entry)
            if reason:
                raise self._error(entry.step, reason, self._line + _lines(texts[counted:index]) + 1)
            self._count += 1
            yield entry
        self._line += _lines(texts[counted:])

    def _item_by_item(self, data: bytes, complete: bool = False) -> Iterator[Entry]:
        for line in data.split(b"\n")[:-1]:
            self._line += 1
            yield from self._take(line.removesuffix(b"\r"))
        if complete:
            for item in self._items.flush():
                yield self._decode(item)

    def _take(self, line: bytes, last: bool = False) -> Iterator[Entry]:
        try:
            for item in self._items.feed(line, self._line):
                yield self._decode(item, last and item.line == self._line)
        except BadLine as error:
            raise self._error(None, error.reason, error.line) from None

    def _last_line(self, tail: bytes) -> Iterator[Entry]:
        """What no line break ends. Where it cannot be parsed the file was cut off, not misspelt."""
        tail, nul, _ = tail.partition(b"\0")
        self.truncated = bool(nul)
        self._line += 1
        try:
            if tail:
                yield from self._take(tail.removesuffix(b"\r"), last=True)
            for item in self._items.flush():
                yield self._decode(item, last=bool(tail) or self._blocks.torn)
        except CutOff:
            self.truncated = True

    def _decode(self, item: Item, last: bool = False) -> Entry:
        found: list[str] = []
        try:
            entry = decode_item(item, found.append)
        except Unparsed as slip:
            if last:
                raise CutOff from None
            reason = f"{slip.reason}, after field {slip.field}" if slip.field else slip.reason
            raise self._error(slip.step, reason, slip.line) from None
        except BadEntry as error:
            raise self._error(error.step, str(error), item.line) from None
        return self._checked(entry, found, item.line)

    def _checked(self, entry: Entry, unknown: list[str], line: int | None = None) -> Entry:
        for path in unknown:
            if path not in self._unknown:
                self._unknown.add(path)
                where = place(entry.step, self._count)
                self.warnings.append(f"{self.name}: {where}: unknown field {path}")
        reason = contradiction(entry)
        if reason:
            raise self._error(entry.step, reason, line)
        self._count += 1
        return entry

    def _error(self, step: int | None, reason: str, line: int | None = None) -> UnreadableError:
        where = f" (line {line})" if line else ""
        return UnreadableError(f"{self.name}: {place(step, self._count)}: {reason}{where}")


def _lines(texts: list[bytes]) -> int:
    return sum(text.count(b"\n") + 1 for text in texts)
