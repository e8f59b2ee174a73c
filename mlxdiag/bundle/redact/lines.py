"""A log, line by line: what no known format explains is left out, the rest goes through `message`.

Line numbers are the log's own, so that a maintainer and the reporter can talk about the same line.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Iterator

from mlxdiag.bundle.redact.message import Messages
from mlxdiag.bundle.redact.paths import LIBRARIES, PACKAGES

LONGEST_LINE = 20_000
"""Characters. A longer line is a request or an answer."""
FIRST_LINES, LAST_LINES = 300, 1_700
"""Of a longer log the middle is left out: a start-up and an end are what a maintainer reads."""

_LEVEL = r"(?:TRACE|DEBUG|INFO|NOTICE|WARN(?:ING)?|ERROR|CRITICAL|FATAL|[IWE])"
_TIME = r"[\[(]?\d{2,4}[-/]\d{2}[-/T ]?\d{0,4}[T ,]?\d{0,2}:?\d{0,2}(?::\d{2})?[\d.,]*(?:Z|[+-]\d{2}:?\d{2})?"

RECORDS: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("time first", re.compile(rf"{_TIME}(?:\s*[\])])?[ ,;-]")),
    ("clock first", re.compile(r"\[?\d{1,2}:\d{2}:\d{2}[.,\d]*\]?\s")),
    ("level first", re.compile(rf"[\[(]?{_LEVEL}\b[\])]?\s*[:\d\[ |(-]")),
    ("key=value", re.compile(r"time=\S+ level=")),
    ("process first", re.compile(r"\([A-Za-z]+[\w ]*\bpid=\d+\)\s")),
    ("syslog", re.compile(r"[A-Z][a-z]{2} [ \d]\d \d{2}:\d{2}:\d{2} ")),
    (
        "llama.cpp",
        re.compile(
            r"(?:slot|srv|que|main|llama_\w+|llm_\w+|ggml_\w+|common_\w+|load_\w+|print_info)\s*[\w:]*\s*:"
        ),
    ),
    ("llama.cpp, timed", re.compile(r"\d+\.\d{2}\.\d{3}\.\d{3} [A-Z] ")),
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
            r"libc\+\+abi:|terminate called|what\(\):|thread '|Fatal error|[\w/.-]+:\d+: Fatal error|zsh: "
            r"|Abort|Trace/BPT|Segmentation fault|Assertion failed|fatal runtime error|panicked at"
        ),
    ),
    ("native frame", re.compile(r"\s*(?:#?\d+:? |at |frame #\d+)")),
    ("request", re.compile(r"(?:GET|POST|PUT|DELETE) /")),
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
    ("module first", re.compile(r"\[[a-z_]+(?:[ -]\w+)?\]")),
    ("importer line", re.compile(r"(?:RequestOutput|SchedulerOutput|CompletionOutput)\(|MLX/\w+\.swift")),
)
"""How a line begins that a program of this field printed about itself."""

_FRAME = re.compile(r"\s*File \"(?P<path>[^\"\n]+)\", line \d+(?:, in [\w.<>]+)?\s*$")
_AT = re.compile(r"\s*[^\s()]+\.py\(\d+\): \S+\s*$")
_RULER = re.compile(r"\s*[-=*#~^_+.\s|]+$")
_JSON = re.compile(r"\s*(?:data: )?[{\[]")
_DONE = re.compile(r"data: \[DONE\]$")
_SYSLOG = re.compile(
    r"(?P<time>[A-Z][a-z]{2} [ \d]\d \d{2}:\d{2}:\d{2} )(?P<host>\S+) "
    r"(?P<program>[\w./-]+?)(?P<pid>\[\d+\])?: "
)
_PREFIXED = re.compile(r"(?P<host>[A-Za-z][\w.-]*) (?P<program>[\w.-]+)\[(?P<pid>\d+)\]: ")
_COMPOSE = re.compile(r"(?P<service>[\w.-]{1,64}) +\| ")
_COLOURS = re.compile(r"\x1b(?:\[[0-9;:?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\^_])")
_LEADING = re.compile(rf"(?P<head>{_TIME}[\])]?(?: - |[ ,]+)?(?:\[?{_LEVEL}\]?[ :-]*)?)")
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

    def clean(self, lines: Iterable[str]) -> Iterator[str]:
        """The log with its line numbers; runs of lines that stay out are told as one."""
        first_out = out_of = 0
        for number, line in _ends(lines):
            shown = None if line is None else self.line(line)
            if shown is None:
                first_out = first_out or number
                if line is None:
                    self._messages.ledger.take("middle")
                out_of = number
                continue
            if first_out:
                yield _gap(first_out, out_of)
                first_out = 0
            yield f"{number:6}| {shown}"
        if first_out:
            yield _gap(first_out, out_of)

    def line(self, line: str) -> str | None:
        """One line, cleaned; None where it stays out."""
        line = _COLOURS.sub("", line.rstrip("\r\n")).replace("\t", "    ").rstrip()
        ledger = self._messages.ledger
        if "-----BEGIN" in line or self._in_key:
            self._in_key = "-----END" not in line
            ledger.take("private-key", line)
            return None
        if len(line) > LONGEST_LINE:
            ledger.take("long-line", line)
            return None
        frame = _FRAME.match(line)
        if frame is not None:
            return self._frame(line, frame["path"])
        if self._in_library is not None and line.startswith("    "):
            return self._source(line)
        self._in_library = None
        if not line or _RULER.match(line) or _DONE.match(line):
            return line
        return self._record(line)

    def _record(self, line: str) -> str | None:
        head, rest = self._sender(line)
        if _AT.match(rest):
            return head + self._messages.clean(rest)
        known = _JSON.match(rest) or any(pattern.match(rest) for _, pattern in RECORDS)
        if not known and not head:
            self._messages.ledger.take("line", line)
            return None
        leading = _LEADING.match(rest)
        cut = leading.end() if leading is not None else 0
        return head + rest[:cut] + self._messages.clean(rest[cut:])

    def _sender(self, line: str) -> tuple[str, str]:
        """What stands before the record: a host and a process, or a container."""
        take = self._messages.ledger.take
        for pattern in (_SYSLOG, _PREFIXED):
            match = pattern.match(line)
            if match is not None:
                take("host", match["host"])
                program = self._messages.name(match["program"]) or "[word]"
                if match["pid"]:
                    take("id", match["pid"])
                return f"{match.groupdict().get('time') or ''}[host] {program}: ", line[match.end() :]
        match = _COMPOSE.match(line)
        if match is not None:
            if self._messages.name(match["service"]) is None:
                take("word", match["service"])
            return (self._messages.name(match["service"]) or "[word]") + " | ", line[match.end() :]
        return "", line

    def _frame(self, line: str, path: str) -> str:
        parts = re.split(r"[/\\]", path)
        self._in_library = any(part in LIBRARIES or part in PACKAGES for part in parts[:-1])
        return "  " + self._messages.clean(line.strip())

    def _source(self, line: str) -> str:
        if self._in_library:
            return "    " + self._messages.clean(line.strip())
        self._messages.ledger.take("source-line", line)
        return "    [source line]"


def _ends(lines: Iterable[str]) -> Iterator[tuple[int, str | None]]:
    """Numbered lines, with None for those between the first and the last."""
    waiting: deque[tuple[int, str]] = deque()
    for number, line in enumerate(lines, 1):
        if number <= FIRST_LINES:
            yield number, line
            continue
        waiting.append((number, line))
        if len(waiting) > LAST_LINES:
            yield waiting.popleft()[0], None
    yield from waiting


def _gap(first: int, last: int) -> str:
    if first == last:
        return f"{first:6}| [line left out]"
    return f"{first:6}| [lines {first} to {last} left out]"
