"""How people write, in words of their own: nothing a library prints about itself looks like it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from importlib.resources import files

MOST = 2
"""Words that may be either speech or a log's in one line."""

_QUOTED_SPEECH = re.compile(r"[\"'](?:[A-Z]\w*,? )?\w+(?: \w+){5,}[.?!\"']")
_WORDS = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)?")
_PLACEHOLDERS = re.compile(
    r"\[[a-z ]{1,20}\]|\[\d+ (?:characters|integers|numbers)\]|\[lines? [\w ]*left out[^\]]*\]"
    r"|\[message left out[^\]]*\]"
)
_ONLY_WORDS = re.compile(r"\s*(?:\d+\| )?\s*(?:[A-Za-z]+[,.;]? (?:/ )?){3,}[A-Za-z]+[.!?:]?\s*$")
_PYTHON = ("During handling of the above exception", "The above exception was the direct cause")
"""Sentences that Python puts between two tracebacks."""
_CONTRACTED = re.compile(
    r"\b[a-z]+(?:'re|'ve|'ll|'m|'d)\b"
    r"|\b[a-z]+n't\b(?! (?:assign|be|broadcast|call|change|concat|convert|decode|delete|encode|exist|find|fit"
    r"|have|import|infer|initialize|load|match|mix|multiply|open|parse|pickle|read|set|start|support|use|work|write)\b)",
    re.IGNORECASE,
)
"""`can't decode byte` and `doesn't match` are how Python and its libraries say it."""


def private(line: str) -> Iterator[str]:
    """The kinds of human writing in a line, placeholders left aside."""
    line = _PLACEHOLDERS.sub(" ", line)
    words = _WORDS.findall(line)
    sure, possible = _spoken()
    low = [word.casefold() for word in words]
    doubtful = sum(word in possible for word in low)
    if not sure.isdisjoint(low) or doubtful > MOST or _CONTRACTED.search(line):
        yield "text that people write"
    if any(word.casefold() in _names() for word in words if word[0].isupper()):
        yield "a given name"
    if not line.isascii() and any(c.isalpha() and not c.isascii() for c in line):
        yield "letters of another script"
    if _ONLY_WORDS.match(line) and not any(one in line for one in _PYTHON):
        yield "a line of nothing but words"
    if (
        not line.startswith(("- {", "note: ", "planted: "))
        and _QUOTED_SPEECH.search(line)
        and "msg=" not in line
    ):
        yield "a quoted sentence"


@cache
def _spoken() -> tuple[frozenset[str], frozenset[str]]:
    """Words that are speech, and words that may be."""
    words = _listed("spoken.txt")
    sure = frozenset(word for word in words if not word.endswith("*"))
    return sure, frozenset(word.rstrip("*") for word in words if word.endswith("*"))


@cache
def _names() -> frozenset[str]:
    return frozenset(_listed("names.txt"))


def _listed(name: str) -> list[str]:
    text = files("mlxdiag.bundle.detect").joinpath(name).read_text("utf-8")
    return [word for line in text.splitlines() if not line.startswith("#") for word in line.split()]
