"""Hashes, pointers, and texts that are encoded, escaped or spelt."""

from __future__ import annotations

import re
from collections.abc import Callable
from re import Match

from mlxdiag.bundle.redact.vocabulary import Vocabulary

Put = Callable[[str, str, str], str]

LONGEST_SHAPE = 8
"""Integers. Shapes have six axes at most, scheduler counts a few more; token ids come in hundreds."""

_LETTERS = re.compile(
    r"(?<![\w.'])[A-Za-z](?:[ ._*\u00b7-]{1,3}[A-Za-z]){3,}(?![\w'])"
    r"|(?<!\w)[A-Za-z](?:(?:[,|/:;]|, )[A-Za-z]){4,}(?!\w)"
)
_PAIRS = re.compile(
    r"(?<!\w)(?=[0-9A-Fa-f :,-]*\d)(?:(?:0x|\\x)?[0-9A-Fa-f]{2}[ ,:-]+){4,}[0-9A-Fa-f]{2}(?!\w)"
)
_ESCAPES = re.compile(
    r"(?:\\x[0-9A-Fa-f]{2}|\\u[0-9A-Fa-f]{4}|&#x?[0-9A-Fa-f]{2,6};|(?<=\w)%[0-9A-Fa-f]{2}(?=\w))\S*"
)
_POINTER = re.compile(r"(?<!\w)0x[0-9a-fA-F]+(?!\w)")
_HEX_TEXT = re.compile(r"(?<!\w)(?=[0-9a-fA-F]*[a-fA-F])(?=[0-9a-fA-F]*\d)(?:[0-9a-fA-F]{2}){4,}(?!\w)")
_HEX = re.compile(r"(?<!\w)(?<!\d\.)(?:0x)?[0-9a-fA-F]{16,}(?!\w)")
_ENCODED = re.compile(r"(?<![\w/+=-])[A-Za-z0-9+/_=-]{20,}={0,2}")
_INTEGERS = re.compile(
    rf"[\[(]?-?\d+(?:\s*[,;]\s*|\s+)(?:-?\d+(?:\s*[,;]\s*|\s+)){{{LONGEST_SHAPE - 1},}}-?\d+[\])]?"
)


def clean(text: str, vocabulary: Vocabulary, put: Put, *, source: bool = False) -> str:
    """`text` with such pieces replaced. `source`: in program text single letters are variables."""
    if not source:
        for pattern in (_LETTERS, _PAIRS, _ESCAPES):
            text = pattern.sub(lambda match: put("encoded", match.group(), "[encoded]"), text)
    text = _HEX.sub(lambda match: put("hash", match.group(), ""), text)
    for pattern in (_POINTER, _HEX_TEXT):
        text = pattern.sub(lambda match: put("encoded", match.group(), "[hex]"), text)

    def integers(match: Match[str]) -> str:
        count = len(re.findall(r"\d+", match.group()))
        return put("integers", match.group(), f"[{count} integers]")

    def judge(match: Match[str]) -> str:
        pieces = match.group().split("=")
        if all(piece.isdigit() or vocabulary.knows(piece) for piece in pieces):
            return match.group()  # of a number `vouched` decides
        return put("encoded", match.group(), "[encoded]")

    return _ENCODED.sub(judge, _INTEGERS.sub(integers, text))
