"""Which words may stay: those of the libraries' own messages, identifiers and public model families."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cache
from importlib.resources import files

from mlxdiag.bundle.redact.fields import FIELDS
from mlxdiag.bundle.redact.jsontext import STRINGS
from mlxdiag.bundle.redact.rules import ENVIRONMENT, KEYED

LONGEST_NUMBER = 12
"""Digits. No offset, length, id of a vocabulary or version is longer; card, phone and account numbers are."""
MOST_REMEMBERED = 50_000
LONGEST_MIXED = 12
"""Characters of a part that mixes letters and digits, as `bfloat16` or `e4b`."""

_PARTS = re.compile(r"[^A-Za-z0-9]+")
_CAMEL = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_NUMBERED = re.compile(
    r"(?:(?P<first>[A-Za-z]+)\d+(?:(?P<second>[A-Za-z]+)\d*)?|\d+(?P<unit>[A-Za-z]+)\d*)\Z"
)


@cache
def words() -> frozenset[str]:
    """The list in `vocabulary.txt`, and the words of the names that traces and rules have; in lower case."""
    return frozenset(
        [
            *listed("vocabulary.txt"),
            *(word for name in _names() for word in re.findall("[a-z]+", name.lower())),
        ]
    )


def listed(name: str) -> list[str]:
    """The words of a list of this folder; lines that begin with # are about it."""
    text = files("mlxdiag.bundle.redact").joinpath(name).read_text("utf-8")
    return [word for line in text.splitlines() if not line.startswith("#") for word in line.split()]


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
            known = all(self._part(part) for part in _PARTS.split(identifier) if part)
            if len(self._asked) < MOST_REMEMBERED:
                self._asked[identifier] = known
        return known

    def _part(self, part: str) -> bool:
        if part.isdigit():
            return len(part) <= LONGEST_NUMBER
        if part.isalpha():
            return self._word(part)
        if len(part) > LONGEST_MIXED:
            return False
        match = _NUMBERED.match(part)
        return match is not None and all(self._word(group) for group in match.groups() if group)

    def _word(self, text: str) -> bool:
        if len(text) == 1:
            return True
        known = words()
        return text.lower() in known or (
            not (text.islower() or text.isupper())
            and all(len(one) == 1 or one.lower() in known for one in _CAMEL.findall(text))
        )
