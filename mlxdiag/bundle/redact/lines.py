"""A log, line by line: what no known format explains is left out, the rest goes through `message`.

Line numbers are the log's own, so that a maintainer and the reporter can talk about the same line.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Iterator

from mlxdiag.bundle.redact import heads, keyed
from mlxdiag.bundle.redact.message import Messages
from mlxdiag.bundle.redact.opened import Opened, begins_turn
from mlxdiag.bundle.redact.paths import LIBRARIES, PACKAGES

LONGEST_LINE = 8_000
"""Characters. A longer line is a request or an answer."""
NO_TIME = -1
FIRST_LINES, LAST_LINES = 300, 1_700
"""Of a longer log the middle is left out: a start-up and an end are what a maintainer reads."""

RECORDS: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("level first", re.compile(rf"[\[(]?{heads.LEVEL}\b[\])]?\s*[:\d\[ |(-]")),
    ("key=value", re.compile(r"time=\S+ level=")),
    ("process first", re.compile(r"\([A-Za-z]+[\w ]*\bpid=\d+\)\s")),
    (
        "llama.cpp",
        re.compile(
            r"(?:slot|srv|que|main|decode|llama_\w+|llm_\w+|ggml_\w+|common_\w+|load_\w+|print_info"
            r"|system_info|system info|build)\s*[\w:]*\s*:"
        ),
    ),
    (
        "traceback",
        re.compile(
            r"(?:Traceback \(most recent call last\)|During handling of the above|The above exception was)"
        ),
    ),
    (
        "exception",
        re.compile(r"(?:[\w.]+\.)?[A-Z]\w*(?:Error|Exception|Warning|Interrupt|Exit|Fault)\b(?::|$)"),
    ),
    (
        "abort",
        re.compile(
            r"Exception in |Token indices sequence length|"
            r"called `(?:Result|Option)::unwrap|stack backtrace:|libc\+\+abi:|terminate called"
            r"|what\(\):|thread '|Fatal error|[\w/.-]+:\d+: Fatal error|zsh: "
            r"|Abort|Trace/BPT|Segmentation fault|Assertion failed|fatal runtime error|panicked at"
        ),
    ),
    ("native frame", re.compile(r"\s*(?:#?\d+:? |at |frame #\d+)")),
    ("request", re.compile(r"(?:GET|POST|PUT|DELETE) /|[\w.:\[\]]+ - - \[")),
    ("out of memory", re.compile(r"(?:[A-Z][A-Za-z]+ )?(?:backend )?out of memory\b", re.IGNORECASE)),
    ("timings", re.compile(r"\s*(?:(?:prompt )?eval|total|load|sampling) time\s*=\s*\d")),
    (
        "statistics",
        re.compile(
            r"(?:Prompt|Generation|Peak memory|Total|Fetching|Loading|Model loaded|Prefill|Decode)\b"
            r"[^:]*: *\d"
        ),
    ),
    (
        "command",
        re.compile(
            r"(?:\$ |\+ |% )?(?:sudo )?(?:[A-Z_]+=\S+ )*(?:python[\d.]*|mlx_lm\S*|mlx_vlm\S*|mlxcel\S*"
            r"|llama-\S+|vllm|sglang|ollama|omlx|rapid-mlx|mlxdiag|curl|docker|uv|uvx|pipx?|git|export|ssh|ENV|set)\s"
        ),
    ),
    ("assignment", re.compile(r"\s*(?:export )?[A-Z][A-Z0-9_]{2,}=")),
    ("numbers", re.compile(r"[\[(]?[\w.\]]+\s*[=:]\s*[\[(]?-?\d")),
    ("module first", re.compile(r"\[[A-Za-z_]+(?:[ -]\w+)?(?:\.(?:py|go|rs|cpp))?(?::\d+)?\]")),
    ("importer line", re.compile(r"(?:RequestOutput|SchedulerOutput|CompletionOutput)\(|MLX/\w+\.swift")),
)
"""How a line begins that a program of this field printed about itself."""

_FRAME = re.compile(r"\s*File \"(?P<path>[^\"\n]+)\", line \d+(?:, in [\w.<>]+)?\s*$")
_PREFIX = re.compile(
    rf"(?:\([A-Za-z]\w*(?: \w+)* pid=\d+\) )?{heads.LEVEL} {heads.DATED[-2]} \[[\w.]+:\d{{1,5}}\] (?=\s*\S)"
)
"""What vLLM writes before every line of a traceback as well."""
_WARNED = re.compile(r"(?P<path>[^\s:]+\.py):\d{1,5}: [A-Z]\w*Warning: ")
_ONE_LINE = re.compile(r"llama_model_loader: - kv ")
"""Lines of which the program cuts off the end, and every line break with it."""
_AT = re.compile(r"\s*[^\s()]+\.py\(\d+\): \S+\s*$")
_COMMAND = next(pattern for name, pattern in RECORDS if name == "command")
_ONLY_WORDS = re.compile(r"\s*(?:[A-Za-z]+[,.;]? ){3,}[A-Za-z]+[.!?:]?\s*\Z")
BETWEEN_TRACEBACKS = ("During handling of the above exception", "The above exception was the direct cause")
_RULER = re.compile(r"\s*[-=*#~^_+.\s|]+$")
_JSON = re.compile(r"\s*(?:data: )?[{\[]")
_DONE = re.compile(r"data: \[DONE\]$")
_SYSLOG = re.compile(
    rf"(?P<time>{heads.DATED[-1]} )(?P<host>\S+) "
    r"(?P<program>[\w./-]+?)(?P<pid>\[\d+\])?: "
)
_PREFIXED = re.compile(r"(?P<host>[A-Za-z][\w.-]*) (?P<program>[\w.-]+)\[(?P<pid>\d+)\]: ")
_COMPOSE = re.compile(r"(?P<service>[\w.-]{1,64}) +\| ")
_COLOURS = re.compile(r"\x1b(?:\[[0-9;:?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\^_])")
_SURE = re.compile(
    r"(?:INFO:\s+)?(?:127\.0\.0\.1|localhost"
    r"|0\.0\.0\.0)(?::\d{1,5})? -(?: - \[[^\]]*\])? \"[A-Z]{3,7} /[\w/]* HTTP/[\d.]+\" \d{3}"
)
"""A request line, of which nothing is anybody's text."""
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
        self._in_library: bool | None = None
        """Whether the frame just read is a library's; None: no frame."""
        self._in_key = False
        self._opened = Opened()
        self._goes_on: int | None = None
        """The kind of time (`heads.stamp`) of the record whose text has no end; NO_TIME: it bears none."""

    def clean(self, lines: Iterable[str]) -> Iterator[str]:
        """The log with its line numbers; runs of lines that stay out are told as one."""
        first_out = out_of = opened = 0
        for number, line, is_middle in _ends(lines):
            was_open = self._is_open
            if is_middle:
                self.skip(line)
            shown = None if is_middle else self.line(line)
            opened = number if self._is_open and not was_open else opened
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
            yield _gap(first_out, out_of, opened if self._is_open else 0)

    @property
    def _is_open(self) -> bool:
        return self._opened.open or self._goes_on is not None

    def skip(self, line: str) -> None:
        """A line that is not shown; what it opens and closes counts."""
        if self._is_inside(line) or line.startswith("    ") or _FRAME.match(line):
            return
        self._opened.feed(line)
        if not self._opened.open and (keyed.goes_on(line) or begins_turn(line)):
            stamp = heads.stamp(line)
            self._goes_on = NO_TIME if stamp is None else stamp

    def line(self, line: str) -> str | None:
        """One line, cleaned; None where it stays out."""
        line = _COLOURS.sub("", line.rstrip("\r\n")).replace("\t", "    ").rstrip()
        if self._is_inside(line):
            return self._out("open", line)
        if "-----BEGIN" in line or self._in_key:
            self._in_key = "-----END" not in line
            return self._out("private-key", line)
        if len(line) > LONGEST_LINE:
            return self._out("long-line", line)
        prefix = _PREFIX.match(line)
        if prefix is not None:
            of_traceback = self._of_traceback(line[prefix.end() :])
            if of_traceback is not None:
                return f"{self._messages.clean(prefix.group().rstrip())} {of_traceback}"
        else:
            of_traceback = self._of_traceback(line)
            if of_traceback is not None:
                return of_traceback
        if not _ONE_LINE.match(line):
            self._opened.feed(line)
        warned = _WARNED.match(line)
        if warned is not None:
            self._in_library = _is_library(warned["path"])
            return self._messages.clean(line)
        if not line or _RULER.match(line) or _DONE.match(line):
            return line
        return self._record(line)

    def _out(self, rule: str, line: str) -> str | None:
        self._messages.ledger.take(rule, count=1)
        self._messages.remember(rule, line)
        return None

    def _of_traceback(self, line: str) -> str | None:
        """A frame, or a line of source code below one; None where it is neither."""
        frame = _FRAME.match(line)
        if frame is not None:
            self._in_library = _is_library(frame["path"])
            return "  " + self._messages.clean(line.strip())
        if self._in_library is not None and line.startswith("  "):
            return self._source(line)
        self._in_library = None
        return None

    def _is_inside(self, line: str) -> bool:
        """Whether the line belongs to what an earlier one opened; it may be the one that closes it."""
        if self._opened.open:
            self._opened.feed(line)
            return True
        if self._goes_on is None:
            return False
        stamp = heads.stamp(line)
        ends = stamp == self._goes_on or (self._goes_on == NO_TIME and stamp is not None)
        if ends or _SURE.match(line):
            self._goes_on = None
            return False
        return True

    def _record(self, line: str) -> str | None:
        head, rest = self._sender(line)
        if _AT.match(rest):
            return head + self._messages.clean(rest)
        stamp = heads.stamp(rest)
        known = stamp is not None or _JSON.match(rest) or any(p.match(rest) for _, p in RECORDS)
        command = known and _COMMAND.match(rest) is not None
        if not command and not self._opened.open and (keyed.goes_on(rest) or begins_turn(rest)):
            self._goes_on = NO_TIME if stamp is None else stamp
        if not known:
            return self._out("line", line)
        shown = head + self._messages.clean(rest, command=command)
        if _ONLY_WORDS.match(shown) and not shown.startswith(BETWEEN_TRACEBACKS):
            return self._out("line", line)
        return shown

    def _sender(self, line: str) -> tuple[str, str]:
        """What stands before the record: a host and a process, or a container."""
        take = self._messages.ledger.take
        for pattern in (_SYSLOG, _PREFIXED):
            match = pattern.match(line)
            if match is not None:
                take("host", match["host"])
                program = self._messages.clean(match["program"])
                if match["pid"]:
                    take("id", match["pid"])
                return f"{match.groupdict().get('time') or ''}[host] {program}: ", line[match.end() :]
        match = _COMPOSE.match(line)
        if match is not None:
            return self._messages.clean(match["service"]) + " | ", line[match.end() :]
        return "", line

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
