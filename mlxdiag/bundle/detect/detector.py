"""Looks at a finished bundle as a stranger would, and refuses it where anything private is left.

It shares neither code nor patterns with what cleaned the parts: it knows this machine, tries every token as
an address, a web address, a path, a key or noise, walks JSON for names that no bundle holds, and looks for
the way people write to each other. What it finds is reported by place and kind; the text itself is not
repeated.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping

import msgspec

from mlxdiag.bundle.detect import figures, prose, tokens_of
from mlxdiag.bundle.detect.facts import Facts
from mlxdiag.bundle.detect.numbers_in import ROW

CODE = (".py",)
"""Programs that the reproduction wrote: no prose is looked for in them."""
SPOKEN = ("logs/", "trace.yaml", "tokens.jsonl")
"""Parts that hold other people's words, where prose and names count. The others are this program's own
sentences."""
LONGEST_STRING = 400
"""Characters of one string in the trace."""
LONGEST_IDS = 8
"""Integers in one list of a log."""

FORBIDDEN = frozenset(
    {
        "prompt", "prompts", "content", "messages", "text", "completion", "generated_text", "input",
        "inputs", "system_prompt",
        "input_ids", "token_ids", "prompt_token_ids", "output_ids", "image_url", "password", "api_key",
        "apikey", "token",
        "secret", "authorization", "cookie", "user", "username", "hostname", "host", "cwd", "home", "path",
        "email",
    }
)  # fmt: skip
"""Names under which a bundle holds no text: a placeholder in brackets or a number may stand there."""

MAY_STAY = re.compile(r"[\w][\w./+-]{2,79}\Z", re.ASCII)
"""A word that can be asked to stay: long enough to be one, and no piece of something else."""


class Hit(msgspec.Struct, frozen=True, order=True):
    """Something private that is left."""

    member: str
    line: int
    kind: str

    def __str__(self) -> str:
        return f"{self.member}, line {self.line}: {self.kind}"


def scan(
    members: Mapping[str, bytes],
    facts: Facts,
    *,
    removed: Iterable[str] = (),
    asked: Iterable[str] = (),
    raw_ids: bool = False,
) -> list[Hit]:
    """Everything private that is left in a bundle's members, at most one of a kind for each line.

    `removed`: texts that the cleaning took out. `asked`: words that the reporter asked to keep.
    `raw_ids`: real token ids were asked for.
    """
    allowed = frozenset(asked)
    sums = _declared(members)
    hits: set[Hit] = set()
    gone = tuple(sorted(set(removed)))
    for name, data in members.items():
        text = data.decode("utf-8", "replace")
        if "\ufffd" in text:
            hits.add(Hit(name, 1, "bytes that are no text"))
        for number, line in enumerate(text.splitlines(), 1):
            for kind in _line(name, line, facts, gone, allowed, sums, raw_ids):
                hits.add(Hit(name, number, kind))
        hits.update(Hit(name, number, kind) for number, kind in _whole(name, text, raw_ids))
        hits.update(Hit(name, number, kind) for number, kind in figures.private(name, text, raw_ids))
    return sorted(hits)


def _line(
    name: str,
    line: str,
    facts: Facts,
    removed: tuple[str, ...],
    allowed: frozenset[str],
    sums: frozenset[str],
    raw_ids: bool,
) -> Iterator[str]:
    bare = _without(line, allowed | sums) if allowed or sums else line
    found = facts.found_in(bare)
    if found is not None:
        yield f"this machine's {found}"
    if any(text in bare for text in removed):
        yield "a text that had been taken out elsewhere"
    code = name.endswith(CODE)
    kinds = tokens_of.private(bare, code=code, log=name.startswith("logs/"))
    yield from (kind for kind in kinds if not (raw_ids and kind == ROW))
    if name.startswith("logs/"):
        yield from _told(bare)
    if name.startswith(SPOKEN):
        yield from prose.private(bare)
        if not raw_ids and _integers(bare) > LONGEST_IDS and name.startswith("logs/"):
            yield "a long list of integers"


def _told(line: str) -> Iterator[str]:
    """`prompt: ...`, `password=...`: a forbidden name and something behind it."""
    low = line.casefold()
    for at, character in enumerate(low):
        if character not in ":=" or low[at + 1 : at + 2] in ":=/" or low[at - 1 : at] in ":":
            continue
        before = low[:at].rstrip(" \"']")
        key = before[len(before.rstrip(_NAME_LETTERS)) :].replace("-", "_")
        behind = low[at + 1 :].lstrip(" \"'").lstrip("b'\"") if low[at + 1 :].strip() else ""
        words = {key, *(key.split("_", k)[-1] for k in range(1, key.count("_") + 1))}
        if words & FORBIDDEN and behind and behind[0].isalpha() and not _is_told(behind):
            yield f"text behind {key!r}"


def _is_told(behind: str) -> bool:
    """Nothing, this machine for itself, or the name under which somebody publishes a model."""
    return behind.startswith(_NO_TEXT) or tokens_of.is_published(
        re.split(r"[\s\"',)]", behind, maxsplit=1)[0]
    )


_NAME_LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789_-"
_NO_TEXT = ("none", "null", "true", "false", "localhost")


def _without(line: str, words: frozenset[str]) -> str:
    """Words that may stay, where they stand as words; a word that is only a piece of one excuses nothing."""
    for word in words:
        if word in line and MAY_STAY.match(word):
            line = re.sub(rf"(?<![\w./-]){re.escape(word)}(?![\w./-])", "", line)
    return line


def _declared(members: Mapping[str, bytes]) -> frozenset[str]:
    """Checksums that the bundle itself declares, where it declares them."""
    lines = members.get("MANIFEST", b"").decode("utf-8", "replace").splitlines()
    sums = [line.split(" ", 1)[0] for line in lines]
    sums += [str(file.get("sha256")) for file in _files(members.get("model.json", b""))]
    return frozenset(one for one in sums if len(one) == 64 and all(c in "0123456789abcdef" for c in one))


def _files(card: bytes) -> list[dict[str, object]]:
    """The weight files in a model.json; none where a stranger wrote something else."""
    try:
        model = json.loads(card)
    except (ValueError, RecursionError):
        return []
    files = model.get("files") if isinstance(model, dict) else None
    return [one for one in files if isinstance(one, dict)] if isinstance(files, list) else []


def _integers(line: str) -> int:
    """The longest run of integers with nothing but commas and blanks between them."""
    longest = run = 0
    for piece in (
        line.replace(",", " ").replace("[", " ").replace("]", " ").replace("(", " ").replace(")", " ").split()
    ):
        run = run + 1 if piece.lstrip("-").isdigit() else 0
        longest = max(longest, run)
    return longest


def _whole(name: str, text: str, raw_ids: bool) -> Iterator[tuple[int, str]]:
    """JSON, walked: as a member, as lines, or as the tails of log lines. Line and kind of each hit."""
    if name.endswith(".json"):
        documents = [(1, text)]
    elif name.endswith((".jsonl", ".yaml")) or name.startswith("logs/"):
        lines = enumerate(text.splitlines(), 1)
        documents = [(number, line[min(starts) :]) for number, line in lines if (starts := _starts(line))]
    else:
        return
    longest = LONGEST_STRING if name == "trace.yaml" else 0
    for number, document in documents:
        try:
            value, _ = json.JSONDecoder().raw_decode(document)
        except (ValueError, RecursionError):
            continue
        yield from ((number, kind) for kind in _forbidden(value, longest, raw_ids))


def _starts(line: str) -> list[int]:
    return [at for mark in ('{"', '[{"') if (at := line.find(mark)) >= 0]


def _forbidden(value: object, longest: int, raw_ids: bool) -> Iterator[str]:
    waiting = [("", value)]
    while waiting:
        key, one = waiting.pop()
        if isinstance(one, dict):
            # An error's text was cleaned as a log line is; prose in it is looked for like there.
            waiting.extend((str(name) if key != "error" else "", inside) for name, inside in one.items())
        elif isinstance(one, list):
            if key.lower() in FORBIDDEN and len(one) > LONGEST_IDS and not raw_ids:
                yield f"a list under {key!r}"
            waiting.extend((key, inside) for inside in one)
        elif isinstance(one, str):
            placeholder = one.startswith("[") and one.endswith("]") and len(one) < 60
            if key.lower() in FORBIDDEN and one and not placeholder:
                yield f"text under {key!r}"
            if longest and len(one) > longest:
                yield "a string too long for a trace"
