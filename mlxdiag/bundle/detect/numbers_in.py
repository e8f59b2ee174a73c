"""Numbers that are not lengths: cards, accounts, telephones, dates, places, secrets, and single token ids."""

from __future__ import annotations

import re
from collections.abc import Iterator

from mlxdiag.bundle.detect import rows_in

ROW = "a row of numbers that is no shape"
"""The kind that may be token ids."""
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


_LOG_ID = re.compile(
    r"(?:^|\| )\s*\d{3,}: -?\d|\"\d{3,}\"\s*:|\b(?<![#-])(?:token|out|output|next|sampled|argmax|chosen)"
    r"(?: token)?(?: id)?(?: is|:| =|=)\s*\d{3,}\b(?!\s*(?:tok|ms|bytes|[KMG]i?B)|[/.]\d|,? [a-z])",
    re.IGNORECASE,
)
_SECRET = re.compile(
    r"\b(?:password|passwd|passphrase|passcode|pin|otp|(?:2fa|mfa)(?: code)?"
    r"|code)\b[\"']?(?:\s+(?:is|was))?[\s:=]{1,3}[\"']?\d{4,}"
    r"|\b[A-Z][A-Z_]*(?:CODE|PIN|PASS|PASSWORD|SECRET|TOKEN|PWD)=[\"']?\d{3,}",
    re.IGNORECASE,
)
_SOMEBODY = re.compile(
    r"(?<![#\w])(?:user|customer|client|account|member)(?:_id)?\b[\"']?[\s:=]{1,3}[\"']?\d{3,}", re.IGNORECASE
)
_DAY = re.compile(
    r"(?<![\d-])(?:19|20)\d\d-[01]\d-[0-3]\d(?!\d|[T _]{1,2}\d\d:)"
    r"|(?<![\d./])[0-3]?\d([./])[0-3]?\d\1(?:19|20)\d\d(?![\d./:])"
)
_PLACE = re.compile(r"-?\d{2,3}\.\d{4,}\s*[,;/ ]\s*-?\d{1,3}\.\d{4,}")
_FOURS = re.compile(r"(?<![\d.,(\[])\b[A-Z]{0,2}\d{2,4}(?: \d{4}){2,}")
_LOCAL = re.compile(
    r"(?<![\d.,=:(\[/|-])\b\d{3}[ -]\d{4}\b(?! ?[a-z%\d.,])|(?<=[a-z] )\d{7}(?![\w.]| ?[a-z%])"
)
_EIGHT = re.compile(
    r"(?<![\w.])(?<!hash:)(?!\d+000\b)\d{8,}(?![\w.])(?! ?(?:bytes|B\b|[KMG]i?B|ns|us)|:kIOGPU)"
)


def private(line: str, *, code: bool = False, log: bool = False) -> Iterator[str]:
    """The kinds of such numbers in a line; in program text no token id is looked for.

    `log`: a line of a log, where a number may be anything.
    """
    if _long(line) or _TELEPHONES.search(line):
        yield "a number too long for a length"
    if not code and _TOKEN_IDS.search(line):
        yield "a token id"
    if log:
        yield from _of_a_log(re.sub(r"^ *\d+\| ", "", line))


def _of_a_log(line: str) -> Iterator[str]:
    if rows_in.private(line):
        yield ROW
    if _LOG_ID.search(line):
        yield "a token id"
    if _SECRET.search(line):
        yield "a secret"
    if _SOMEBODY.search(line):
        yield "somebody's number"
    if _DAY.search(line):
        yield "a day"
    if _PLACE.search(line):
        yield "a place on a map"
    if _FOURS.search(line) or _LOCAL.search(line) or _EIGHT.search(line):
        yield "a number too long for a length"


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
