"""Names of lengths, counts, places and measures, and which numbers are fit for them."""

from __future__ import annotations

import re
from functools import cache

from mlxdiag.bundle.redact.wordlists import section

LONGEST = 7
"""Digits of a count: a context has a million positions."""
LONGEST_ROUND = 13
"""Digits where a unit of bytes follows, or where the number is a round one, as the base of a rotation."""
MOST_AXES = 6
MOST_ROWS = 8
LARGE, MOST_LARGE, STEP = 256, 2, 64
"""Of a shape's lengths at most two are large, positions and width, or they are multiples: of token ids most
are large and few are."""


def words(title: str) -> frozenset[str]:
    """A section of `counters.txt`, in lower case."""
    return section("counters.txt", title)


def parts_of(key: str) -> list[str]:
    """`numNewTokens`, `num_new_tokens` and `num-new-tokens` as words."""
    split = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", key.lstrip("#"))
    return [part for part in re.split(r"[_.#-]+", split.lower()) if part]


@cache
def counts(key: str) -> bool:
    """Whether what is called `key` is a length, a count, a place or a measure."""
    parts = parts_of(key)
    if not parts:
        return False
    if key.lower() in words("keys") or key.startswith("#"):
        return True
    if parts[-1] in words("never"):
        return False
    if any(part in words("keys") for part in parts[-2:]):
        return True
    return parts[0] in ("n", "num", "max", "min", "total") and len(parts) > 1


def plausible(digits: str, *, size: bool = False) -> bool:
    """Whether a number is not too long for a count, or a round one, or a size in bytes."""
    whole = digits.lstrip("-").split(".", 1)[0].split("e", 1)[0]
    round_one = whole.endswith("000") and len(whole) <= LONGEST_ROUND
    return len(whole) <= LONGEST or round_one or (size and len(whole) <= LONGEST_ROUND)


def is_shape(key: str, numbers: list[int]) -> bool:
    """A shape, or a number for each row of a batch."""
    parts = parts_of(key)
    if key.lower() in words("rows") or (parts and parts[-1] in words("rows")):
        return len(numbers) <= MOST_ROWS
    large = sorted((abs(one) for one in numbers if abs(one) > LARGE), key=lambda one: one % STEP != 0)
    return len(numbers) <= MOST_AXES and all(
        one % STEP == 0 for one in large[: max(0, len(large) - MOST_LARGE)]
    )
