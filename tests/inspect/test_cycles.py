"""Loops at the end of a stream, against a search that tries every period from its definition."""

from __future__ import annotations

from array import array

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mlxdiag.inspect.cycles import tail_cycle


def by_definition(ids: list[int]) -> tuple[int, int] | None:
    """(period, tokens covered) of the shortest loop: four copies and 48 tokens to period 20, then three."""
    for period in range(1, min(len(ids), 1024) + 1):
        covered = period
        while covered < len(ids) and ids[-covered - 1] == ids[-covered - 1 + period]:
            covered += 1
        copies = covered // period
        if (period <= 20 and copies >= 4 and covered >= 48) or (period > 20 and copies >= 3):
            return period, covered
    return None


@settings(max_examples=300, deadline=None)
@given(
    head=st.lists(st.integers(0, 2), max_size=20),
    block=st.lists(st.integers(0, 2), min_size=1, max_size=40),
    copies=st.integers(1, 30),
    rest=st.integers(0, 39),
    tail=st.lists(st.integers(0, 2), max_size=2),
)
def test_the_loop_found_is_the_shortest_there_is(head, block, copies, rest, tail):
    ids = [*head, *(block * copies), *block[:rest], *tail]
    found = tail_cycle(array("q", ids))
    assert (found and (found.period, found.covered)) == by_definition(ids)


@pytest.mark.parametrize(
    ("ids", "period"),
    [
        ([7] * 48, 1),
        ([7] * 47, None),
        ([1, 2, 3, 4] * 12, 4),
        # Four copies, but 44 tokens.
        ([1, 2, 3, 4] * 11, None),
        (list(range(20)) * 4, 20),
        (list(range(20)) * 3, None),
        (list(range(21)) * 3, 21),
        (list(range(1024)) * 3, 1024),
        (list(range(1025)) * 3, None),
        # A multiple of a short loop is the short loop.
        ([1, 2, 3, 4, 5, 6, 7] * 9, 7),
        # Overlapping matches are no copies: two and a half times 40.
        (list(range(40)) * 2 + list(range(20)), None),
    ],
)
def test_periods_and_copies_on_both_sides_of_the_limits(ids, period):
    found = tail_cycle(array("q", ids))
    assert (found and found.period) == period


def test_a_loop_is_counted_from_its_first_token_in_whole_copies():
    found = tail_cycle(array("q", [9, 9, *([1, 2, 3, 4] * 13), 1, 2]))
    assert found == (4, 13, 54)
