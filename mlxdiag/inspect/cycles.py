"""Does a token stream end in a loop? Exact, on the tail alone, always with the primitive period."""

from __future__ import annotations

from array import array
from typing import NamedTuple

SHORT_PERIOD = 20
LONG_PERIOD = 1024
SHORT_REPEATS = 4
SHORT_TOKENS = 48
LONG_REPEATS = 3
TAIL = LONG_REPEATS * LONG_PERIOD
"""Tokens that must be remembered for the longest period to be seen."""


class Cycle(NamedTuple):
    period: int
    """Primitive: 12 equal tokens are a cycle of 1, not three copies of four tokens."""
    repeats: int
    """Whole adjacent copies; overlapping matches do not count."""
    covered: int
    """Tokens from the first of the loop to the end of the stream."""


def needed(period: int) -> int:
    """Tokens that a tail of this period must cover before it counts as a loop."""
    if period <= SHORT_PERIOD:
        return max(SHORT_TOKENS, SHORT_REPEATS * period)
    return LONG_REPEATS * period


def tail_cycle(ids: array[int]) -> Cycle | None:
    """The loop that the stream ends in, or None.

    Periods are tried from the shortest: a multiple of a period needs at least as many tokens as the period
    itself, so the first hit is the primitive one.
    """
    length = len(ids)
    for period in range(1, min(LONG_PERIOD, length // LONG_REPEATS) + 1):
        start = length - needed(period)
        if start < 0 or ids[-1] != ids[-1 - period]:
            continue
        if ids[start + period :] == ids[start : length - period]:
            return _extend(ids, period, start)
    return None


def _extend(ids: array[int], period: int, start: int) -> Cycle:
    while start > 0 and ids[start - 1] == ids[start - 1 + period]:
        start -= 1
    covered = len(ids) - start
    return Cycle(period, covered // period, covered)
