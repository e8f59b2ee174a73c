"""A generated text with special tokens in it, as pasted: `<unused2115><unused2102>...`, `<pad><pad>`."""

from __future__ import annotations

import re
from itertools import pairwise

from mlxdiag.traces.importers.importer import TAKEN, UNKNOWN, Importer
from mlxdiag.traces.importers.records import Record
from mlxdiag.traces.importers.tokens import SPECIAL, Answers, Token, class_of, pieces

_WORD = "words are taken for tokens, and lines for one answer"

_MEMBER = re.compile(r"\s*(?:\"|data:|event:|id:)")
"""A piece of JSON that was cut: part of a body, and nobody knows whose words."""


class PlainText(Importer):
    """Takes lines where special tokens follow one another, or stand alone.

    A text that *talks* about such a token names it between words, and is left alone.
    """

    name = "text"

    def take(self, record: Record) -> int:
        text = record.text
        if record.value is not None or _MEMBER.match(text) or not _generated(text):
            return UNKNOWN
        answer = Answers(self.draft).of(("text",))
        return TAKEN if answer.emit(list(pieces(text, words=True)), None, _WORD) else UNKNOWN


def _generated(text: str) -> bool:
    """Whether two reserved or padding tokens touch, or the line is nothing but such tokens."""
    found = [match for match in SPECIAL.finditer(text) if class_of(Token(text=match.group()), None) in "rp"]
    if not found:
        return False
    if not SPECIAL.sub("", text).strip():
        return True
    return any(not text[a.end() : b.start()].strip() for a, b in pairwise(found))
