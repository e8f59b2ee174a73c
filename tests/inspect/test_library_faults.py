"""Moves that the real cache classes allow and get wrong: no healthy run makes them, and a rule finds them."""

from __future__ import annotations

import pytest

from mlxdiag.inspect.findings import codes
from tests.inspect.real_caches import inspected
from tests.inspect.test_real_caches import Chunked, OneSequence, Rotating


def run(machine: type[OneSequence], window: int) -> OneSequence:
    driven = machine()
    driven.window = window
    driven.cache = driven.make()
    return driven


def found(driven: OneSequence) -> set[str]:
    return codes(inspected(driven.header(), driven.entries).findings)


@pytest.mark.parametrize(("cut", "expected"), [(3, set()), (6, {"MD207"})])
def test_a_chunked_cache_cut_back_into_an_earlier_block_has_lost_its_first_keys(cut, expected):
    """`ChunkedKVCache.is_trimmable` is always true. At 20, in blocks of 8, the cache holds 12 to 19: cut to
    17 its block begins at 16, but cut to 14 at 8, and 8 to 11 are gone."""
    driven = run(Chunked, 8)
    driven.call(20)
    driven.cache.maybe_trim_front()
    driven.take_back(cut, "trim")
    driven.call(1)
    assert found(driven) == expected


@pytest.mark.parametrize(("fed", "expected"), [(7, set()), (20, {"MD204"})])
def test_a_rotating_cache_that_has_wrapped_reports_a_trim_that_it_cannot_do(fed, expected):
    """`RotatingKVCache.trim` moves its counters back and returns `n`, whatever it has overwritten."""
    driven = run(Rotating, 8)
    for _ in range(fed):
        driven.call(1)
    driven.take_back(2, "trim")
    driven.call(1)
    assert found(driven) == expected
