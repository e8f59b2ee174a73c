"""Sentences of known words: people write with them too, so a sentence stays only where a library says it.

A word list cannot tell `the model is a user` from a message. What tells is how words follow each other: a run
of plain words with an article, a verb or a pronoun in it has to consist of pieces of `phrases.txt`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache

from mlxdiag.bundle.redact import counters, wordlists

STRONG = frozenset(
    (
        "the", "a", "an", "is", "are", "was", "were", "it", "its", "this", "that", "these", "those",
        "i", "he", "she", "we", "they", "who", "what", "why", "how", "their", "them", "do", "does",
        "did", "would", "could", "should",
    )
)  # fmt: skip
"""One of them makes a run of words a sentence."""
WEAK = frozenset(
    (
        "and", "or", "but", "if", "so", "not", "no", "there", "with", "for", "from", "of", "to", "in",
        "on", "at", "by", "as", "than", "then", "has", "have", "had", "will", "can", "may", "might",
        "must", "when", "where", "be", "been",
    )
)  # fmt: skip
"""Two of them do."""
LONGEST_LIST = 7
"""Words in a row without any of these: names of parts and flags, as libraries string them together."""
LONGEST_IN_PROGRAMS = 12
"""The same in a line of program text, whose operators may be words."""
MOST_TAGS = 2
"""Of a record, as `[rope]` before the message."""
MOST_SPOKEN = 1
"""Such words in a message, outside of its sentences."""
PIECE = 3
"""Words of a piece."""

_TOKEN = re.compile(r"[^\s,;|()\[\]{}\"'`<>=/\ue000\ue001]+")
_EDGES = ".:!?*-"
_LEVELS = ("TRACE", "DEBUG", "INFO", "NOTICE", "WARN", "WARNING", "ERROR", "CRITICAL", "FATAL")
_IDENTIFIER = re.compile(r"(?:[A-Z]{2,}|[A-Z]?[a-z]{2,})(?:[A-Z][a-z]+)+[A-Z]*\Z")
_BETWEEN = re.compile(r"[\s,;|()\[\]{}\"'`<>=/.:!?*-]*\Z")


NEVER_IN_PROGRAMS = STRONG - {"a", "i", "is"}
"""Such words in a line of program text."""


def is_said(text: str) -> bool:
    """Whether a library says it: a piece of it is known, and every sentence in it."""
    runs = [[word for _, _, word in run] for run in _runs(text)]
    unknown = any(_is_sentence(words, STRONG) and not _is_known(words) for words in runs)
    return not unknown and any(len(words) >= PIECE and _is_known(words) for words in runs)


def sentences(text: str, strong: frozenset[str] = STRONG) -> Iterator[tuple[int, int]]:
    """Spans of sentences that no library says, and of the pieces of one that is broken up.

    `strong`: the words that make a sentence.
    """
    pieces: list[tuple[int, int]] = []
    spoken = 0
    for run in _runs(text):
        words = [word for _, _, word in run]
        if _is_sentence(words, strong):
            if not _is_known(words):
                yield run[0][0], run[-1][1]
        elif len(words) < PIECE:
            spoken += sum(word in strong for word in words)
            pieces.append((run[0][0], run[-1][1]))
    if spoken > MOST_SPOKEN:
        yield from pieces


ADDRESSED = frozenset(("you", "your", "please", "we", "our", "us", "my", "me"))
"""Libraries say these as well; alone they are more likely somebody's."""


def said(text: str) -> set[int]:
    """Where the words begin that stand in pieces of what libraries say: no list of words has to know them."""
    known = _pieces()
    found: set[int] = set()
    for run in _runs(text):
        for at in range(len(run) - PIECE + 1):
            piece = run[at : at + PIECE]
            if tuple(word for _, _, word in piece) in known:
                found.update(start for start, _, word in piece if word not in ADDRESSED)
    return found


def _runs(text: str) -> Iterator[list[tuple[int, int, str]]]:
    """Plain words in a row, with nothing but blanks and punctuation between them."""
    run: list[tuple[int, int, str]] = []
    tags, number = 0, False
    for match in _TOKEN.finditer(text):
        word = match.group().strip(_EDGES)
        if not word:
            continue
        measured, number = number and word.lower() in counters.words("units"), word[0].isdigit()
        plain = (
            not measured
            and word.isalpha()
            and word.isascii()
            and word not in _LEVELS
            and not _IDENTIFIER.match(word)
        )
        between = text[run[-1][1] : match.start()] if run else ""
        tagged = "] " in between and tags < MOST_TAGS
        tags += tagged
        ended = len(run) >= PIECE and text[run[-1][1] - 1] in ".:;!?"
        if run and (not plain or tagged or ended or not _BETWEEN.match(between)):
            yield run
            run = []
        if plain:
            run.append((match.start(), match.end(), word.lower()))
    if run:
        yield run


def _is_sentence(words: list[str], strong: frozenset[str]) -> bool:
    if len(words) < PIECE:
        return False
    weak = sum(word in WEAK for word in words) if strong is STRONG else 0
    longest = LONGEST_LIST if strong is STRONG else LONGEST_IN_PROGRAMS
    return any(word in strong for word in words) or weak >= 2 or len(words) > longest


def _is_known(words: list[str]) -> bool:
    known = _pieces()
    return all(tuple(words[i : i + PIECE]) in known for i in range(len(words) - PIECE + 1))


@cache
def _pieces() -> frozenset[tuple[str, ...]]:
    """Every three words in a row of `phrases.txt`."""
    found: set[tuple[str, ...]] = set()
    for line in wordlists.lines("phrases.txt"):
        for run in _runs(line):
            words = [word for _, _, word in run]
            found.update(tuple(words[i : i + PIECE]) for i in range(len(words) - PIECE + 1))
    return frozenset(found)
