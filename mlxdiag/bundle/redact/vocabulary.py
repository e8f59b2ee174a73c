"""Which words may stay: those of the libraries' own messages, identifiers and public model families."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cache

from mlxdiag.bundle.redact import clauses, counters
from mlxdiag.bundle.redact.fields import FIELDS
from mlxdiag.bundle.redact.jsontext import STRINGS
from mlxdiag.bundle.redact.rules import ENVIRONMENT, KEYED
from mlxdiag.bundle.redact.wordlists import listed

LONGEST_NUMBER = 12
"""Digits. No offset, length, id of a vocabulary or version is longer; card, phone and account numbers are."""
MOST_REMEMBERED = 50_000
LONGEST_MIXED = 12
"""Characters of a part that mixes letters and digits, as `bfloat16` or `e4b`."""
SHORTEST_WORD = 3
"""Letters of the words in a longer one, as `Gemma3ForCausalLM`."""
LONGEST_SUFFIX = 2
"""Digits at a word, as in `q4` or `layers.12`. Token ids and numbers of accounts are longer."""
LONGEST_NAMED = {"unused": 5, "reserved": 5, "rtx": 4, "gtx": 4, "rfc": 4, "iso": 4}
"""Digits at words that bear more than those of `counters.txt`: control tokens, and cards."""
SIZES = (
    "b",
    "m",
    "k",
    "x",
    "d",
    "bit",
    "bits",
    "ms",
    "us",
    "ns",
    "s",
    "gb",
    "mb",
    "kb",
    "tb",
    "gib",
    "mib",
    "kib",
)
"""What three digits may stand before: `gemma-3-270m`."""
MOST_LETTERS = 2
"""Single letters in a row: more of them spell a word."""

_PARTS = re.compile(r"[^A-Za-z0-9]+")
_CAMEL = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_NUMBERED = re.compile(
    r"(?:(?P<first>[A-Za-z]+)(?P<number>\d+)(?:(?P<second>[A-Za-z]+)(?P<more2>\d*))?"
    r"|(?P<count>\d+)(?P<unit>[A-Za-z]+)(?P<more>\d*))\Z"
)
_NO_NAME = re.compile(r".*%[0-9A-Fa-f]{2}|(?!127\.0\.0\.1\Z|0\.0\.0\.0\Z)v?\d+(?:\.\d+){3,}\Z")
"""An escape, and an address."""
_YEAR_MONTH = re.compile(r"2[3-9](?:0[1-9]|1[0-2])\Z")
"""How model families name a release: `Qwen3-30B-A3B-Instruct-2507`."""


@cache
def words() -> frozenset[str]:
    """The list in `vocabulary.txt`, and the words of the names that traces and rules have; in lower case."""
    return frozenset(
        [
            *listed("vocabulary.txt"),
            *(word for name in _names() for word in re.findall("[a-z]+", name.lower())),
        ]
    )


def _names() -> Iterator[str]:
    for table in FIELDS.values():
        yield from table
    yield from ENVIRONMENT
    yield from STRINGS
    for rule, _, keys, _ in KEYED:
        if rule not in ("content", "person"):
            yield from keys


class Vocabulary:
    """The list, and the names that somebody asked for."""

    def __init__(self, kept: Iterable[str] = ()) -> None:
        self.kept = frozenset(kept)
        self._asked: dict[str, bool] = {}

    def knows(self, identifier: str) -> bool:
        """Whether every part of `gemma4_text`, `models/cache.py` or `RotatingKVCache` is in the list.

        A part that mixes letters and digits must be a word and a number, once or twice (`fp16`, `q4`, `e4b`):
        what alternates more often is a key or a hash, whatever its letters are.
        """
        if identifier in self.kept:
            return True
        known = self._asked.get(identifier)
        if known is None:
            known = not _NO_NAME.match(identifier) and self._all([p for p in _PARTS.split(identifier) if p])
            if len(self._asked) < MOST_REMEMBERED:
                self._asked[identifier] = known
        return known

    def _all(self, parts: list[str]) -> bool:
        if not any(c.isalpha() for part in parts for c in part):
            return all(len(part) <= LONGEST_NUMBER for part in parts)
        spoken = [one.lower() for part in parts for one in _CAMEL.findall(part)]
        if sum(one in clauses.STRONG for one in spoken) > 1:
            return False  # `the_model_is_a_user`
        letters = 0
        for before, part in zip(["", *parts], parts, strict=False):
            letters = letters + 1 if len(part) == 1 and part.isalpha() else 0
            if letters > MOST_LETTERS or not self._part(part, before.lower(), len(parts[0]) > 1):
                return False
        return True

    def _part(self, part: str, before: str, named: bool) -> bool:
        if part.isdigit():
            return self._suffix(part, before) or (named and bool(_YEAR_MONTH.match(part)))
        if part.isalpha():
            return self._word(part)
        match = _NUMBERED.match(part)
        if len(part) > LONGEST_MIXED and (
            match is None or any(len(match[name] or "") < SHORTEST_WORD for name in ("first", "second"))
        ):
            return False
        if match is None or not all(
            self._word(match[name]) for name in ("first", "second", "unit") if match[name]
        ):
            return False
        if match["unit"]:
            room = LONGEST_SUFFIX + 1 if match["unit"].lower() in SIZES else LONGEST_SUFFIX
            return len(match["count"]) <= room and len(match["more"]) <= LONGEST_SUFFIX
        last = match["second"] or match["first"]
        return self._suffix(match["number"], match["first"].lower()) and (
            not match["second"] or not match["more2"] or self._suffix(match["more2"], last.lower())
        )

    @staticmethod
    def _suffix(digits: str, word: str) -> bool:
        """A number at a word. Machines are numbered from 01 on, layers from 0."""
        room = LONGEST_NAMED.get(word, LONGEST_SUFFIX + (word in counters.words("numbered")))
        if word in counters.words("types"):
            return digits in ("4", "8", "16", "32", "64", "128")
        return len(digits) <= room and not (len(digits) > 1 and digits[0] == "0" and word)

    def _word(self, text: str) -> bool:
        if len(text) == 1:
            return True
        known = words()
        return text.lower() in known or (
            not (text.islower() or text.isupper())
            and all(len(one) == 1 or one.lower() in known for one in _CAMEL.findall(text))
        )
