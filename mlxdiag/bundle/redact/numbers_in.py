"""Numbers that are not lengths: cards, accounts, telephones, and single token ids."""

from __future__ import annotations

import re
from collections.abc import Iterator

LONGEST_NUMBER = 13
"""Digits from which a number, with its groups, is one of somebody's."""

_GROUPED = re.compile(r"(?<![\w.])\d+(?:-\d{3,6})*(?![\w]|\.\d)")
_CARD = re.compile(r"(?<!\d )\b[3-6]\d{3} (?:\d{4} \d{4} \d{4}|\d{6} \d{5})\b(?! \d)")
_INTERNATIONAL = re.compile(r"(?<![\w)])\+\d(?:[ ().-]{0,2}\d){8,}")
_TELEPHONES = re.compile(
    r"(?<![\d.-])(?:\(\d{2,5}\) ?\d{3,4}[ -]?\d{3,4}|\d{3}([-.])\d{3}\1\d{4}|\d{3}-\d{2}-\d{4})(?![\d.-])"
)
_TOKEN_IDS = re.compile(
    r"(?<![#\w-])(?:token|detokeni[sz]ed)(?:[ _]id)?[\s:=]+(?:\d+:\s+)?\d{3,}\b(?! tok|[/.]\d|, \d)"
    r"|_token[:=]\s*\d{3,}|\d{3,} ?-> ?[\"']|(?<![\d.:])\d{4,}:0?\.\d",
    re.IGNORECASE,
)
"""A number behind the word, before its text, or beside its probability."""


def private(line: str, *, code: bool = False) -> Iterator[str]:
    """The kinds of such numbers in a line; in program text no token id is looked for."""
    if _long(line) or _TELEPHONES.search(line):
        yield "a number too long for a length"
    if not code and _TOKEN_IDS.search(line):
        yield "a token id"


def _long(line: str) -> bool:
    """A row of lengths is none of these, though it has as many digits."""
    if _INTERNATIONAL.search(line):
        return True
    if any(sum(c.isdigit() for c in match.group()) >= LONGEST_NUMBER for match in _GROUPED.finditer(line)):
        return True
    return any(_luhn(match.group()) for match in _CARD.finditer(line))


def _luhn(text: str) -> bool:
    """The check digit of payment cards."""
    digits = [int(c) for c in reversed(text) if c.isdigit()]
    return sum(d if i % 2 == 0 else sum(divmod(2 * d, 10)) for i, d in enumerate(digits)) % 10 == 0
