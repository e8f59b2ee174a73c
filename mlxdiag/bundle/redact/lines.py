"""A log, line by line: what no known format explains is left out, the rest goes through `message`.

Line numbers are the log's own, so that a maintainer and the reporter can talk about the same line.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Iterator

from mlxdiag.bundle.redact import heads
from mlxdiag.bundle.redact.following import FRAME, PREFIX, Following, prepared, sender, unclosed
from mlxdiag.bundle.redact.message import Messages
from mlxdiag.bundle.redact.paths import LIBRARIES, PACKAGES
from mlxdiag.bundle.redact.records import COMMAND, RECORDS

FIRST_LINES, LAST_LINES = 300, 1_700
"""Of a longer log the middle is left out: a start-up and an end are what a maintainer reads."""

_AT = re.compile(r"\s*[^\s()]+\.py\(\d+\): \S+\s*$")
_ONLY_WORDS = re.compile(r"\s*(?:[A-Za-z]+[,.;]? ){3,}[A-Za-z]+[.!?:]?\s*\Z")
BETWEEN_TRACEBACKS = ("During handling of the above exception", "The above exception was the direct cause")
_RULER = re.compile(r"\s*[-=*#~^_+.\s|]+$")
_JSON = re.compile(r"\s*(?:data: )?[{\[]")
_DONE = re.compile(r"data: \[DONE\]$")
_HOME = re.compile(r"(?:/(?:Users|home)/|[A-Za-z]:\\{1,2}Users\\{1,2})([^/\\\s\"'`,;:)\]]{2,})")
_VOLUME = re.compile(r"/(?:Volumes|media/[^/\s]+|mnt)/([^/\n\"'`,;:)\]]{2,})")


def people(texts: Iterable[str]) -> set[str]:
    """User and volume names that the texts themselves show, by their paths."""
    found: set[str] = set()
    for text in texts:
        for pattern in (_HOME, _VOLUME):
            found.update(name.strip() for name in pattern.findall(text))
    return found


class Lines:
    """Cleans one log. Stateful: a line of source code belongs to the frame above it."""

    def __init__(self, messages: Messages) -> None:
        self._messages = messages
        self._in_library = False
        """Whether the frame read last is a library's."""

    def clean(self, lines: Iterable[str]) -> Iterator[str]:
        """The log with its line numbers; runs of lines that stay out are told as one."""
        whole = list(lines)
        following = Following(unclosed(whole))
        first_out = out_of = opened = 0
        for number, line, is_middle in _ends(whole):
            line, was_open = prepared(line), following.open
            kind = following.feed(line)
            shown = None if is_middle else self._line(line, kind)
            opened = number if following.open and not was_open else opened
            if shown is None:
                first_out = first_out or number
                if is_middle:
                    self._messages.ledger.take("middle")
                out_of = number
                continue
            if first_out:
                yield _gap(first_out, out_of)
                first_out = 0
            yield f"{number:6}| {shown}"
        if first_out:
            yield _gap(first_out, out_of, opened if following.open else 0)

    def _line(self, line: str, kind: str) -> str | None:
        """One line, cleaned; None where it stays out."""
        if kind in ("open", "private-key", "long-line"):
            return self._out(kind, line)
        prefix = PREFIX.match(line) if kind in ("frame", "source") else None
        if prefix is not None:
            rest = self._of_traceback(line[prefix.end() :], kind)
            return f"{self._messages.clean(prefix.group().rstrip())} {rest}"
        if kind in ("frame", "source"):
            return self._of_traceback(line, kind)
        if kind == "warned":
            self._in_library = _is_library(line.split(".py:", 1)[0])
            return self._messages.clean(line)
        if not line or _RULER.match(line) or _DONE.match(line):
            return line
        return self._record(line)

    def _out(self, rule: str, line: str) -> str | None:
        self._messages.ledger.take(rule, count=1)
        self._messages.remember(rule, line)
        return None

    def _of_traceback(self, line: str, kind: str) -> str:
        """A frame, or a line of source code below one."""
        frame = FRAME.match(line)
        if kind == "source" or frame is None:
            return self._source(line)
        self._in_library = _is_library(frame["path"])
        return "  " + self._messages.clean(line.strip())

    def _record(self, line: str) -> str | None:
        head, rest = self._sender(line)
        if _AT.match(rest):
            return head + self._messages.clean(rest)
        known = heads.stamp(rest) is not None or _JSON.match(rest) or any(p.match(rest) for _, p in RECORDS)
        if not known:
            return self._out("line", line)
        shown = head + self._messages.clean(rest, command=COMMAND.match(rest) is not None)
        if _ONLY_WORDS.match(shown) and not shown.startswith(BETWEEN_TRACEBACKS):
            return self._out("line", line)
        return shown

    def _sender(self, line: str) -> tuple[str, str]:
        """The cleaned name of who sent the record, and the record."""
        match = sender(line)
        if match is None:
            return "", line
        parts, rest = match.groupdict(), line[match.end() :]
        if "service" in parts:
            return self._messages.clean(match["service"]) + " | ", rest
        self._messages.ledger.take("host", match["host"])
        if match["pid"]:
            self._messages.ledger.take("id", match["pid"])
        program = self._messages.clean(match["program"])
        return f"{parts.get('time') or ''}[host] {program}: ", rest

    def _source(self, line: str) -> str:
        indent = line[: min(4, len(line) - len(line.lstrip()))]
        if self._in_library:
            return indent + self._messages.clean(line.strip(), source=True)
        self._messages.ledger.take("source-line", line)
        return indent + "[source line]"


def _is_library(path: str) -> bool:
    return any(part in LIBRARIES or part in PACKAGES for part in re.split(r"[/\\]", path)[:-1])


def _ends(lines: Iterable[str]) -> Iterator[tuple[int, str, bool]]:
    """Numbered lines, and whether they lie between the first and the last."""
    waiting: deque[tuple[int, str]] = deque()
    for number, line in enumerate(lines, 1):
        if number <= FIRST_LINES:
            yield number, line, False
            continue
        waiting.append((number, line))
        if len(waiting) > LAST_LINES:
            yield *waiting.popleft(), True
    yield from ((number, line, False) for number, line in waiting)


def _gap(first: int, last: int, opened: int = 0) -> str:
    never = f": what line {opened} opens is not closed" if opened else ""
    if first == last:
        return f"{first:6}| [line left out{never}]"
    return f"{first:6}| [lines {first} to {last} left out{never}]"
