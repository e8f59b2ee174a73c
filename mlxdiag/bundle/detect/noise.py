"""Long pieces of letters and digits that no word explains: keys, hashes, attachments."""

from __future__ import annotations

import math
import re
import string
from collections import Counter
from itertools import pairwise

SHORTEST_NOISE = 18
"""Characters of a piece without separators."""
LEAST_ENTROPY = 3.0
"""Bits a character. Words and identifiers of this length lie below it, or hold no digit."""


def is_noise(text: str, commit: bool) -> bool:
    """A long piece of letters and digits that no word explains."""
    if "+" in text and text[0].isdigit() and "." in text.split("+", 1)[0]:
        text = text.split("+", 1)[0]  # a version and its build
    if _FLOAT.match(text):
        return False
    if "=" in text.rstrip("="):
        return False  # what stands behind the equals sign is a piece of its own
    pieces = [text, *text.replace("-", " ").replace(".", " ").replace("+", " ").split()]
    for piece in pieces:
        body = piece.strip("=")
        if len(body) < 16 or not all(c in _NOISE for c in body):
            continue
        digits = sum(c.isdigit() for c in body)
        letters = len(body) - digits
        hexadecimal = set(body.casefold().removeprefix("0x")) <= set("0123456789abcdef")
        if hexadecimal and letters:
            if len(body) == 40 and commit:
                continue
            return True
        if digits >= 2 and letters >= 4 and len(body) >= SHORTEST_NOISE and _entropy(body) >= LEAST_ENTROPY:
            if "_" not in body and "/" not in body:
                return True
            if any(len(part) >= 10 and _changes(part) >= 4 for part in body.replace("/", "_").split("_")):
                return True
        if len(body) >= 20 and _changes(body) >= 6 and "_" not in body and not _CAMEL.match(body):
            return True
    return False


_CAMEL = re.compile(r"(?:kIOGPU|[a-z]{2,})?(?:[A-Z]{1,4}[a-z]{2,}\d?){2,}(?:LM|VL)?\Z")
"""A class's name, as `RepositoryNotFoundError`."""
_FLOAT = re.compile(r"-?\d\.\d{1,17}e[+-]\d{2}\Z")
"""A small or large number as JSON writes it, as `7.4803829193115234e-06`."""
_NOISE = frozenset(string.ascii_letters + string.digits + "+/_=")


def _changes(text: str) -> int:
    """How often letters in upper case, in lower case and digits take turns."""
    kinds = ["d" if c.isdigit() else "u" if c.isupper() else "l" for c in text if c.isalnum()]
    return sum(a != b for a, b in pairwise(kinds))


def _entropy(text: str) -> float:
    counts = Counter(text)
    return -sum(n / len(text) * math.log2(n / len(text)) for n in counts.values())
