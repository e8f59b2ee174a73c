"""Dates and clocks as logs print them, and nothing that only looks like one: every field is in its range."""

from __future__ import annotations

import re

LEVEL = r"(?:TRACE|DEBUG|INFO|NOTICE|WARN(?:ING)?|ERROR|CRITICAL|FATAL|[IWE](?=\d{4} ))"
MONTHS = r"(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)"
YEAR = r"20[23]\d"
"""Of a log that this program may meet; a date of birth lies before."""

_MONTH, _DAY = r"(?:0[1-9]|1[0-2])", r"(?:0[1-9]|[12]\d|3[01])"
CLOCK = r"(?:[01]\d|2[0-3]):[0-5]\d:(?:[0-5]\d|60)(?:[.,](?:\d{9}|\d{6,7}|\d{1,3}))?(?!\d)"
_ZONE = r"(?:Z|\s?[+-](?:0\d|1[0-4]):?[0-5]\d\b)?"
DATED = (
    rf"{YEAR}([-/]){_MONTH}\1{_DAY}[T ,_]{{1,2}}{CLOCK}{_ZONE}",
    rf"{_DAY}/{MONTHS}/{YEAR}[: ]{CLOCK}(?: [+-]\d{{2}}00)?",
    rf"{YEAR}/{_MONTH}/{_DAY} - {CLOCK}",
    rf"{_MONTH}-{_DAY} {CLOCK}",
    rf"{MONTHS} (?: [1-9]|0[1-9]|[12]\d|3[01]) {CLOCK}",
)
"""A day with a time of the day. A day alone is somebody's."""

_DATED_FIRST = tuple(re.compile(rf"[\[(]?{one}") for one in DATED)
_CLOCK_FIRST = re.compile(rf"[\[(]?{CLOCK}")
_UPTIME = r"\d{1,4}\.[0-5]\d\.\d{3}\.\d{3}(?= [IWED] )"
_UPTIME_FIRST = re.compile(_UPTIME)
_TIMES = re.compile(
    "|".join(
        (
            *(rf"(?<![\w.:/-]){one}" for one in DATED),
            rf"(?<![\w.:]){CLOCK}(?![:\w])",
            rf"\A{_UPTIME}",
        )
    )
)
_BEFORE = re.compile(rf"(?:\[GIN\] |time=\"?|\[?{LEVEL}\]?[\s:]+|\([A-Za-z]\w*(?: \w+)* pid=\d+\) |data: )*")


def times() -> re.Pattern[str]:
    """Finds a day with its time."""
    return _TIMES


def stamp(line: str) -> int | None:
    """Which kind of time a record begins with; None: with none."""
    start = _BEFORE.match(line)
    at = start.end() if start is not None else 0
    for kind, pattern in enumerate((*_DATED_FIRST, _CLOCK_FIRST, _UPTIME_FIRST)):
        if pattern.match(line, at):
            return kind
    return None
