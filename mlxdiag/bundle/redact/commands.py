"""Command lines: programs, subcommands, options, and values that are a number or one of a few words.

What a person types between options, or in place of one, is a prompt or a path as often as not.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from mlxdiag.bundle.redact.publishers import is_public
from mlxdiag.bundle.redact.vocabulary import Vocabulary
from mlxdiag.bundle.redact.wordlists import section

Put = Callable[[str, str, str], str]

PLAIN = section("commands.txt", "plain")
"""Words that may stand outside of an option."""
MODULE = re.compile(r"(?:mlx|mlx_lm|mlx_vlm|vllm|sglang|transformers|torch)(?:\.[a-z_]+){0,4}\Z")
VERSIONED = re.compile(r"[A-Za-z][\w-]*(?:[=<>~!]=\d[\w.]*)\Z")
CHOICES = section("commands.txt", "choices")
"""Values that a person picks and does not make up."""

_FLAG = re.compile(r"(?<![\w-])--?[A-Za-z][\w-]*(?==|\s|$)")
_PIECE = re.compile(r"(?:\"(?:[^\"\\]|\\.)*\"?|'[^']*'?|[^\s\"']|[\"'])+")
_VALUE = re.compile(r"-?\d[\d.,]{0,11}[kKmMgG]?\Z")
_ASSIGNED = re.compile(r"[A-Z][A-Z0-9_]*=")
_OPERATORS = frozenset(("&&", "||", "|", ";", ">", ">>", "<", "&", "\\", "2>&1"))


def is_flagged(text: str) -> bool:
    """Whether the text holds a long option."""
    return re.search(r"(?<![\w-])--[a-z][\w-]*(?:=|\s|$)", text) is not None


def clean(text: str, hidden: re.Pattern[str], vocabulary: Vocabulary, put: Put, *, whole: bool) -> str:
    """`text` with what is neither option, number nor known choice replaced.

    `hidden`: what earlier rules put in; it stays. `whole`: the text is a command from its first word on; else
    only what stands behind an option is looked at.
    """
    done: list[str] = []
    at, expects, active, repeats = 0, False, whole, False
    for match in _PIECE.finditer(text):
        piece = match.group()
        done.append(text[at : match.start()])
        at = match.end()
        flag = _FLAG.match(piece) if hidden.search(piece) is None or piece.startswith("-") else None
        if flag is not None or piece.startswith("--"):
            name, equals, value = piece.partition("=")
            active, expects, repeats = True, not equals, False
            goes = equals and not _may_stay(value, hidden, vocabulary)
            done.append(name + equals + put("positional", value, "[value]") if goes else piece)
            continue
        stays = (
            not active
            or _may_stand(piece, hidden, vocabulary)
            or (expects and _may_stay(piece, hidden, vocabulary))
        )
        expects = False
        if stays:
            done.append(piece)
            active, repeats = active and (whole or piece not in _OPERATORS), False
        else:
            if repeats:
                done.pop()  # the blank between two pieces of one text
            done.append(put("positional", piece, "" if repeats else "[text]"))
            repeats = True
    return "".join(done) + text[at:]


def _may_stand(piece: str, hidden: re.Pattern[str], vocabulary: Vocabulary) -> bool:
    """Outside of an option."""
    bare = hidden.sub("", piece).strip("\"'$+%(),")
    return (
        not bare.strip(":/.")
        or bare in PLAIN
        or bare in _OPERATORS
        or (MODULE.match(bare) is not None and vocabulary.knows(bare))
        or (VERSIONED.match(bare) is not None and vocabulary.knows(bare))
        or _ASSIGNED.match(bare) is not None
        or bare in vocabulary.kept
        or is_public(bare, vocabulary)
        or (bare.startswith(("http://localhost", "http://127.0.0.1", "http://0.0.0.0")))
    )


def _may_stay(value: str, hidden: re.Pattern[str], vocabulary: Vocabulary) -> bool:
    """As an option's value."""
    bare = hidden.sub("", value).strip("\"'")
    return (
        not bare.strip(":/.,")
        or _VALUE.match(bare) is not None
        or bare in CHOICES
        or bare in vocabulary.kept
        or is_public(bare, vocabulary)
        or (MODULE.match(bare) is not None and vocabulary.knows(bare))
        or re.match(r"(?:localhost|127\.0\.0\.1|0\.0\.0\.0)(?::\d{1,5})?\Z", bare) is not None
    )
