"""What a line of a log is, as far as the lines before it decide: inside of a text, of a key, of a traceback.

What is opened and closed again is left out with all that stands in it. What is opened and never closed is no
text over several lines but one that was cut off: it ends where the next record of its kind begins.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from mlxdiag.bundle.redact import heads, keyed
from mlxdiag.bundle.redact.opened import RULER, Opened, begins_turn
from mlxdiag.bundle.redact.records import COMMAND

LONGEST_LINE = 8_000
"""Characters. A longer line is a request or an answer."""
MOST_BLANKS = 60
"""In a row: progress bars clear their line with hundreds."""
NO_TIME = -1
MOST_UNCLOSED = 20
"""Texts of a log that are never closed, behind which the log goes on; behind the next nothing is shown."""

FRAME = re.compile(r"\s*File \"(?P<path>[^\"\n]+)\", line \d+(?:,? in [\w.<>]+)?\s*$")
PREFIX = re.compile(
    rf"(?:\([A-Za-z]\w*(?: \w+)* pid=\d+\) )?{heads.LEVEL} {heads.DATED[-2]} \[[\w.]+:\d{{1,5}}\] (?=\s*\S)"
    r"|\[rank\d+\]: (?=\s*\S)"
)
"""What vLLM and torch write before every line of a traceback as well."""
WARNED = re.compile(r"(?P<path>[^\s:]+\.py):\d{1,5}: [A-Z]\w*Warning: ")
BOXED = "│"
"""Begins the rows of rich's tracebacks, which cut long lines in the middle of a bracket."""
_ONE_LINE = re.compile(r"llama_model_loader: - kv ")
"""Lines of which the program cuts off the end, and every line break with it."""
_COLOURS = re.compile(r"\x1b(?:\[[0-9;:?]*[ -/]*[@-~]|\][^\x07\x1b]{0,300}(?:\x07|\x1b\\)?|[@-Z\\^_])")
_BLANKS = re.compile(f" {{{MOST_BLANKS},}}")
_SYSLOG = re.compile(
    rf"(?P<time>{heads.DATED[-1]} )(?P<host>\S+) "
    r"(?P<program>[\w./-]+?)(?P<pid>\[\d+\])?: "
)
_PREFIXED = re.compile(r"(?P<host>[A-Za-z][\w.-]*) (?P<program>[\w.-]+)\[(?P<pid>\d+)\]: ")
_COMPOSE = re.compile(r"(?P<service>[\w.-]{1,64}) +\| ")
_SURE = re.compile(
    r"(?:INFO:\s+)?(?:localhost|\d{1,3}\.\d{1,3}\.\d{1,3}\.\d{1,3})"
    r"(?::\d{1,5})? -(?: - \[[^\]]*\])? \"[A-Z]{3,7} /[\w/]* HTTP/[\d.]+\" \d{3}"
)
"""A request line, of which nothing is anybody's text."""
_FAULT = re.compile(r"Traceback \(most recent call last\):$|libc\+\+abi: |Fatal Python error: |zsh: |Abort")
"""What ends an answer that was being printed."""


def prepared(line: str) -> str:
    """Without colours, line ends, tabs, and rows of blanks."""
    line = _COLOURS.sub("", line.rstrip("\r\n")).replace("\t", "    ").rstrip()
    return _BLANKS.sub(" " * MOST_BLANKS, line)


def sender(line: str) -> re.Match[str] | None:
    """What stands before the record: a host and a process, or a container."""
    for pattern in (_SYSLOG, _PREFIXED, _COMPOSE):
        match = pattern.match(line)
        if match is not None:
            return match
    return None


class Following:
    """Stateful, one a log; lines are `prepared`."""

    def __init__(self, unclosed: Iterable[int] = ()) -> None:
        self.number = 0
        self._unclosed = frozenset(unclosed)
        self._opened = Opened()
        self._in_key = False
        self._in_traceback = False
        self._goes_on: int | None = None
        """The kind of time (`heads.stamp`) of the record whose text has no end; NO_TIME: it bears none."""
        self._since: str | None = None
        """When the system's journal got that record: a text over several lines comes in one piece."""
        self._ends_at_fault = False

    @property
    def held(self) -> bool:
        """Whether a bracket or a quote is open."""
        return self._opened.open

    @property
    def open(self) -> bool:
        """Whether the next line is inside of a text."""
        return self._opened.open or self._goes_on is not None

    def feed(self, line: str) -> str:
        """The kind of the line: open, private-key, long-line, frame, source, warned or record."""
        self.number += 1
        kind = self._kind(line)
        if kind in ("record", "warned") and self.held and self.number in self._unclosed:
            self.resume(line)
        return kind

    def resume(self, line: str) -> None:
        """What this line opens is never closed: it goes on to the next record of its kind."""
        self._opened = Opened()
        stamp = heads.stamp(_record(line))
        self._goes_on = NO_TIME if stamp is None else stamp
        self._since, self._ends_at_fault = _time(line), line == RULER

    def _kind(self, line: str) -> str:
        if self._is_inside(line):
            return "open"
        if "-----BEGIN" in line or self._in_key:
            self._in_key = "-----END" not in line
            return "private-key"
        if len(line) > LONGEST_LINE:
            return "long-line"
        prefix = PREFIX.match(line)
        rest = line[prefix.end() :] if prefix is not None else line
        if FRAME.match(rest):
            self._in_traceback = True
            return "frame"
        if self._in_traceback and rest.startswith("  "):
            return "source"
        self._in_traceback = WARNED.match(line) is not None
        if line.startswith(BOXED):
            return "record"
        if not _ONE_LINE.match(line):
            self._opened.feed(line)
        if self._in_traceback:
            return "warned"
        self._begins(_record(line), _time(line))
        return "record"

    def _begins(self, record: str, time: str | None) -> None:
        """Whether a text begins in a record that has no end."""
        if self._opened.open or (record.startswith("{") and record.endswith("}")):
            return  # a whole JSON value, and with it every text in it
        if not (keyed.goes_on(record) or begins_turn(record)):
            return
        stamp = heads.stamp(record)
        if stamp is None and COMMAND.match(record):
            return
        self._goes_on = NO_TIME if stamp is None else stamp
        self._since, self._ends_at_fault = time, False

    def _is_inside(self, line: str) -> bool:
        """Whether the line belongs to what an earlier one opened; it may be the one that closes it."""
        if self._opened.open:
            self._opened.feed(line)
            return True
        if self._goes_on is None:
            return False
        stamp = heads.stamp(_record(line))
        ends = stamp == self._goes_on or (self._goes_on == NO_TIME and stamp is not None)
        if self._goes_on == NO_TIME and self._since is not None:
            ends = ends or _time(line) not in (None, self._since)
        if ends or _SURE.match(line) or (self._ends_at_fault and _FAULT.match(line)):
            self._goes_on = None
            return False
        return True


def _record(line: str) -> str:
    match = sender(line)
    return line if match is None else line[match.end() :]


def _time(line: str) -> str | None:
    """When the system's journal got the line."""
    match = _SYSLOG.match(line)
    return None if match is None else match["time"]


def unclosed(lines: Sequence[str]) -> frozenset[int]:
    """Numbers of the lines that open what no later line closes, at most `MOST_UNCLOSED` of them."""
    found: set[int] = set()
    following = Following()
    at = 0
    while len(found) < MOST_UNCLOSED:
        opened_at = 0
        for number in range(at + 1, len(lines) + 1):
            was_held = following.held
            following.feed(prepared(lines[number - 1]))
            if following.held and not was_held:
                opened_at = number
        if not following.held:
            break
        found.add(opened_at)
        following, at = Following(), opened_at
        following.resume(prepared(lines[at - 1]))
    return frozenset(found)
