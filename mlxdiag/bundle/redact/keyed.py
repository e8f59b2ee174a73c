"""Values that a name in front of them gives away: `api_key=...`, `--prompt ...`, `HF_TOKEN=...`."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from re import Match

from mlxdiag.bundle.redact import counters
from mlxdiag.bundle.redact.publishers import is_public
from mlxdiag.bundle.redact.rules import ENVIRONMENT, KEYED
from mlxdiag.bundle.redact.vocabulary import Vocabulary

Put = Callable[[str, str, str], str]
"""Takes rule, removed text and what stands in its place; returns a mark that nothing later looks into."""

FLAGS = {
    "u": "person",
    "p": "content",
    "d": "content",
    "data": "content",
    "data-raw": "content",
    "H": "secret",
}
"""Short options, and those of curl. `-p 8080:8080` is numbers, which stay."""

SPEAKERS = ("user", "assistant", "system", "human")
"""Before a colon what they say, after an equals sign who they are."""

PLACES = ("server", "nas", "machine", "box", "cluster", "gateway", "load_model", "init_model")
"""Before a colon these are parts of a program that speak, as in `mlxcel::server: listening`."""

SPOKEN_OF = ("token", "key")
"""Before a colon and plain words these are what a message is about: the words are held to the vocabulary."""
_PLAIN = re.compile(r"[a-z]+(?![\w-])")

OF_SEVERAL_WORDS = ("authorization", "auth", "cookie", "credentials")
"""Headers, whose value has blanks in it; behind a colon that of a password may have them too."""
SPECIAL = ("eos_token", "pad_token", "bos_token", "unk_token", "eos_token_id", "pad_token_id", "bos_token_id")

_NAME = re.compile(
    r"(?<![\w#-])(?P<key>[A-Za-z_][\w.-]*)(?P<close>[\"']?\]?)(?P<sep>\s*(?:=>|==?(?!=)|(?<!:):(?!:))\s*)"
)
_FLAG = re.compile(r"(?<![\w-])--?(?P<key>[A-Za-z][\w-]*)(?P<sep>=|\s+|[\"'],\s*[\"'])")
_ASSIGNED = re.compile(r"(?<![\w-])(?P<name>[A-Z][A-Z0-9_]{2,})=(?P<value>\"[^\"]*\"?|'[^']*'?|\S*)")
_SPOKEN = re.compile(
    r"(?<![\w-])(?P<key>password|passwd|passphrase|passcode|pwd|pin|otp|secret|(?:2fa|mfa"
    r"|totp)(?: code)?|api[ _]key|access token)"
    r"(?P<sep>\s+(?:is |was )?)(?!(?:is|was|for|of|in|not|and|or|must|missing|invalid|failed"
    r"|required|provided)\b)"
    r"(?P<value>[^\s\"',;)\]}\ue000]+)",
    re.IGNORECASE,
)
"""A secret that stands behind its name and a blank."""
_NAMED = re.compile(
    r"(?P<key>\b(?:adapter|lora|checkpoint)\s+)(?P<value>(?![\w./-]*[=(:])[A-Za-z](?=[\w./-]*[-_/\d])[\w./-]+)",
    re.IGNORECASE,
)
"""What somebody named behind the word for it."""
_PROGRAM_TEXT = re.compile(r"[A-Za-z_(\[{*-]|\d+[,)\s]|\d*\Z")
_GENERAL = re.compile(
    r"(?P<key>\bgeneral\.(?!architecture|type|file_type|quantization_version"
    r"|alignment)[\w.]+(?: (?:str|arr\[str,\d+\]))?\s*= )(?P<value>.+)"
)
"""What a GGUF file says of its model and of who made it."""
_COUNTED = re.compile(r"\d+(?= \w+=)")
"""`prompt=9120 keep=4`: a length, or a text of one number; what follows is neither."""
_QUOTED = re.compile(r"(?:[bruf]{0,2})(\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*')", re.DOTALL)
_UP_TO_BREAK = re.compile(r"[^\s,;)\]}\"'&|]+")
_UP_TO_FLAG = re.compile(r"(?:(?!\s--?[A-Za-z]).)+", re.DOTALL)
_END_OF_LINE = re.compile(r"[\"',;]|\s--?[a-z]")
_SHAPE = re.compile(r"[-+]?[\d.]+%?(?=[\s,;)\]}/]|$)|[\[(](?:\s*-?\d+\s*,?){0,8}[\])](?![\w(])")
_NOTHING = re.compile(r"(?:none|null|nil|true|false|n/a)\b", re.IGNORECASE)
_LOOPBACK = re.compile(r"(?:localhost|127\.0\.0\.1|0\.0\.0\.0|\[?::1?\]?)(?::\d{1,5})?(?![\w.])")
_SWITCH = re.compile(
    r"[\d.,x/%-]{1,12}|true|false|on|off|yes|no|cpu|gpu|debug|info|warn|error|trace|full", re.IGNORECASE
)


_TEXT_FOLLOWS = re.compile(r"[^\W\d]|\S{1,3}$|\d+ [^\W\d]")
OPEN_ENDED = (
    "prompt", "prompts", "content", "text", "user", "assistant", "human", "completion", "response",
    "generated", "generated_text", "question", "answer", "instruction", "instructions", "messages",
    "body", "transcript",
)  # fmt: skip
"""Behind these a text without quotes goes on in the next lines, as far as anybody knows."""
_MAY_GO_ON = re.compile(rf"(?:{'|'.join(OPEN_ENDED)})[\"']?\]?\s*[=:]", re.IGNORECASE)
_ONE_WORD = re.compile(r"\S*(?:\s+\w+=|\s*$)")


def clean(text: str, vocabulary: Vocabulary, put: Put, *, source: bool = False) -> str:
    """`text` with the values of telling names replaced.

    `source`: it is a line of program text, where `output = f(x)` holds no output.
    """
    text = _ASSIGNED.sub(lambda match: _environment(match, put), text)
    text = _GENERAL.sub(lambda m: m["key"] + put("model-name", m["value"], _mark("model-name")), text)
    text = _walk(_FLAG, text, vocabulary, put)
    text = _SPOKEN.sub(lambda m: m["key"] + m["sep"] + put("secret", m["value"], _mark("secret")), text)
    if not source:
        text = _NAMED.sub(lambda m: _named(m, vocabulary, put), text)
    return _walk(_NAME, text, vocabulary, put, source=source)


def _named(match: Match[str], vocabulary: Vocabulary, put: Put) -> str:
    public = is_public(match["value"], vocabulary)
    return match.group() if public else match["key"] + put("model-name", match["value"], _mark("model-name"))


def goes_on(text: str) -> bool:
    """Whether a text begins in this line that has no quotes, so that nobody knows where it ends."""
    if not _MAY_GO_ON.search(text):
        return False
    for match in _NAME.finditer(text):
        last = kind(match["key"]) == "content" and match["key"].lower().replace("-", "_").split(".")[-1]
        rest = text[match.end() :]
        if last in SPEAKERS and "=" in match["sep"] and _ONE_WORD.match(rest):
            continue  # who it is
        if last not in OPEN_ENDED or match["close"] or not _TEXT_FOLLOWS.match(rest) or _NOTHING.match(rest):
            continue
        if not _may_stay("content", match["key"], rest, Vocabulary(), text[: match.start()]):
            return True
    return False


@cache
def kind(key: str) -> str | None:
    """The rule for what is called `key`: the whole name or its last words must be in a rule's list."""
    parts = (
        re.sub(r"(?<=[a-z])(?=[A-Z])", "_", key)
        .lower()
        .replace("-", "_")
        .replace(".", "_")
        .strip("_")
        .split("_")
    )
    for start in range(len(parts)):
        name = "_".join(parts[start:])
        for rule, _, keys, _ in KEYED:
            if name in keys:
                return rule
    return None


@cache
def _mark(rule: str) -> str:
    return next(mark for name, _, _, mark in KEYED if name == rule)


def _walk(
    pattern: re.Pattern[str], text: str, vocabulary: Vocabulary, put: Put, *, source: bool = False
) -> str:
    """Every name in turn; what a replaced value held is not looked at again."""
    done, at = [], 0
    while match := pattern.search(text, at):
        start = match.end()
        end = start
        rule = (FLAGS.get(match["key"]) if pattern is _FLAG else None) or kind(match["key"])
        if match["key"].lower() in SPEAKERS and "=" in match["sep"]:
            rule = "person"
        if match["key"].lower() in SPOKEN_OF and ":" in match["sep"] and _PLAIN.match(text, start):
            rule = None
        if match["key"].lower().rsplit(".", 1)[-1] in PLACES and "=" not in match["sep"]:
            rule = None
        if rule == "id" and match["key"].lower() == "request" and "=" not in match["sep"]:
            rule = None  # what follows is the request itself: its line, or its body
        if source and rule not in ("secret", "token-ids") and _PROGRAM_TEXT.match(text, start):
            rule = None
        if rule is not None and not _is_special(text, match):
            end = _end(rule, match, text, flag=pattern is _FLAG)
            if end > start and _may_stay(
                rule, match["key"], text[start:end], vocabulary, text[: match.start()]
            ):
                end = start
        done.append(text[at:start])
        if rule is not None and end > start:
            done.append(put(rule, text[start:end], _mark(rule)))
        at = end
    return "".join(done) + text[at:]


def _is_special(text: str, match: Match[str]) -> bool:
    """`eos_token: 106` is of the vocabulary; so is `<eos>`, which the words settle."""
    return match["key"].lower() in SPECIAL and bool(re.match(r"\d+\b|[\"']?<", text[match.end() :]))


def _end(rule: str, match: Match[str], text: str, *, flag: bool) -> int:
    """Where the value ends. A text's end nobody knows, so without quotes it is the end of the message."""
    start = match.end()
    quoted = _QUOTED.match(text, start)
    if quoted is not None:
        return quoted.end()
    if start < len(text) and text[start] in "\"'":
        return len(text)
    counted = _COUNTED.match(text, start) if "=" in match["sep"] else None
    if counted is not None:
        return counted.end()
    if rule in ("content", "token-ids") or text[start : start + 1] in "[{(":
        whole = _UP_TO_FLAG.match(text, start) if flag else None
        return whole.end() if whole is not None else len(text)
    header = match["key"].lower().endswith(OF_SEVERAL_WORDS)
    if rule == "secret" and not flag and (header or ":" in match["sep"]):
        return _line(text, start)
    value = _UP_TO_BREAK.match(text, start)
    return value.end() if value is not None else start


def _line(text: str, start: int) -> int:
    found = _END_OF_LINE.search(text, start)
    return found.start() if found else len(text)


def _may_stay(rule: str, key: str, value: str, vocabulary: Vocabulary, before: str) -> bool:
    """Numbers and shapes are no secret, nor is a loopback address, nor the name of a public model."""
    bare = value.strip().strip("\"'")
    shape = _SHAPE.match(bare)
    whole = shape is not None and shape.end() == len(bare)
    if not bare or _NOTHING.fullmatch(bare):
        return True
    if rule == "secret":
        return key.lower() == "key" and whole
    if rule == "token-ids":
        return False
    if rule == "content":
        counted = re.match(r"\d+(?:/\d+)?\s*(?:tok|\||,\s*n_|$)|[\d.]+\s*[kKMG]?i?B\b", bare) is not None
        spoken = re.search(r"(?:error|exception|warning)\s*$", before, re.IGNORECASE) is not None
        return (
            (shape is not None and (whole or bare[shape.end() : shape.end() + 1] in ",/"))
            or counted
            or spoken
        )
    if rule == "id":
        return whole and key.lower() not in ("pid", "ppid", "tid", "thread_id")
    if rule == "model-name":
        source = key.lower() in ("file", "path") and bare.endswith((".py", ".rs", ".cpp", ".go", ".swift"))
        return whole or is_public(bare, vocabulary) or (source and vocabulary.knows(bare))
    return whole or (rule == "host" and _LOOPBACK.match(bare) is not None)


def _environment(match: Match[str], put: Put) -> str:
    name, value = match["name"], match["value"]
    number = re.fullmatch(r"[\"']?[\d.,/x%-]{1,12}[\"']?[,;)\]]?", value) is not None
    if not value or (number and (len(value) == 1 or name in ENVIRONMENT or counters.counts(name.lower()))):
        return match.group()
    if name in ENVIRONMENT and _SWITCH.fullmatch(value):
        return match.group()
    return f"{name}={put('environment', value, '[value]')}"
