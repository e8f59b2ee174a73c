"""JSON inside a log: numbers under known names stay, strings only where a list says so, nothing else."""

from __future__ import annotations

import json
import re
from typing import Any, Protocol

from mlxdiag.bundle.redact import clauses, counters, heads

STRINGS = (
    "object", "finish_reason", "role", "type", "level", "phase", "status", "stop_reason", "done_reason",
    "event",
    "encoding_format", "dtype", "quantization", "model", "architecture", "cache", "backend", "device",
)  # fmt: skip
"""Names under which a string of known words may stay."""
MESSAGES = ("message", "msg", "event")
"""In a record of a log, which tells its level, its text."""
LEVELS = ("trace", "debug", "info", "warn", "warning", "error", "critical", "fatal")
TIMES = ("timestamp", "time", "ts", "asctime")
ERRORS = ("error", "detail", "exception")
"""Names under which a message of the library stands; also `message` inside of `error`."""
RECORD = "record of a log"
"""What a mapping is that tells a level; no name is spelt like that."""
IDS = (
    "id", "ids", "tokens", "token", "token_ids", "prompt_token_ids", "input_ids", "context", "bytes",
    "logit_bias", "created", "user",
)  # fmt: skip
"""Names under which not even numbers stay: token ids, bytes of text, and what names a request."""
LONGEST_STRING = 2
"""Words."""
LONGEST_LIST = 8
LONGEST_KEY = 40
DEEPEST = 40

_START = re.compile(r"[{\[]\s*[\"{\[]|\{\s*\}")
_CUT_OFF = re.compile(r"\[?\s*\{\s*\"|\[\s*\"")
_DECODER = json.JSONDecoder()


class Cleaner(Protocol):
    """What cleans the rest of the message."""

    def name(self, text: str) -> str | None:
        """The text, where every part of it is known."""

    def inner(self, text: str) -> str:
        """A message inside the message, cleaned."""

    def take(self, rule: str, original: str) -> None:
        """Count a removal."""

    def keep(self, text: str) -> str:
        """A mark that no later rule looks into."""


def clean(text: str, cleaner: Cleaner) -> str:
    """`text` with every JSON value cleaned; a broken one is cut off with all that comes after it."""
    done, at = "", 0
    while match := _START.search(text, at):
        start = match.start()
        try:
            value, end = _DECODER.raw_decode(text, start)
        except (ValueError, RecursionError) as error:
            if isinstance(error, RecursionError) or _CUT_OFF.match(text, start):
                cleaner.take("json", text[start:])
                return done + text[at:start] + cleaner.keep("[json]")
            done, at = done + text[at : start + 1], start + 1
            continue
        shown = json.dumps(_value(value, "", "", cleaner, 0))
        done, at = done + text[at:start] + cleaner.keep(shown), end
    return done + text[at:]


def _value(value: Any, key: str, above: str, cleaner: Cleaner, depth: int) -> Any:
    if depth > DEEPEST:
        return _gone(value, "[json]", cleaner)
    if isinstance(value, dict):
        return _mapping(value, key, cleaner, depth)
    if isinstance(value, list):
        if value and all(isinstance(one, int | float) for one in value):
            return value if _is_shape(value, key) else _gone(value, f"[{len(value)} numbers]", cleaner)
        return [_value(one, key, above, cleaner, depth + 1) for one in value]
    if isinstance(value, str):
        return _string(value, key, above, cleaner)
    if isinstance(value, bool) or value is None:
        return value
    if key in IDS:
        return _gone(value, "[id]", cleaner)
    if not _is_count(value, key):
        cleaner.take("integer", "")
        return "[n]"
    return value


def _is_count(value: int | float, key: str) -> bool:
    """A digit, a fraction, or a number whose name says what it counts."""
    if isinstance(value, float) and abs(value) < 100:
        return True
    return (isinstance(value, int) and abs(value) < 10) or (
        len(key) > 1 and counters.counts(key) and counters.plausible(str(value))
    )


def _is_shape(value: list[Any], key: str) -> bool:
    whole = [one for one in value if isinstance(one, int)]
    if key in IDS or len(whole) < len(value):
        return key not in IDS and len(value) <= LONGEST_LIST and all(abs(one) < 100 for one in value)
    known = counters.parts_of(key)[-1:] and counters.parts_of(key)[-1] in counters.words("shapes")
    return bool(known) and counters.is_shape(key, whole)


def _mapping(value: dict[str, Any], key: str, cleaner: Cleaner, depth: int) -> dict[str, Any]:
    shown: dict[str, Any] = {}
    level = value.get("level")
    if isinstance(level, str) and level.lower() in LEVELS:
        key = RECORD
    for name, one in value.items():
        if key == RECORD and name == "fields" and isinstance(one, dict):
            shown[name] = _mapping({**one, "level": level}, name, cleaner, depth + 1)
            shown[name].pop("level", None)
            continue
        if (
            len(name) <= LONGEST_KEY
            and len(name.split()) <= LONGEST_STRING
            and any(c.isalpha() for c in name)
            and name.lower() not in clauses.STRONG
            and cleaner.name(name) is not None
        ):
            shown[name] = _value(one, name, key, cleaner, depth + 1)
        else:
            _gone({name: one}, "", cleaner)
    return shown


def _string(value: str, key: str, above: str, cleaner: Cleaner) -> str:
    if key in ERRORS or (key == "message" and above in ERRORS) or (key in MESSAGES and above == RECORD):
        return cleaner.inner(value)
    if key in TIMES and heads.times().fullmatch(value):
        return value
    plain = len(value.split()) <= LONGEST_STRING and clauses.STRONG.isdisjoint(value.lower().split())
    if key in STRINGS and plain and cleaner.name(value) is not None:
        return value
    cleaner.take("json", value)
    return f"[{len(value)} characters]"


def _gone(value: Any, mark: str, cleaner: Cleaner) -> str:
    """Every text in what is dropped is looked for again, not only the whole."""
    cleaner.take("json", json.dumps(value, ensure_ascii=False))
    return mark
