"""Cache lengths against tables worked out by hand in public reports and in the caches' own documentation."""

from __future__ import annotations

import pytest

from mlxdiag.inspect import geometry
from mlxdiag.inspect.geometry import returned_bounds, returned_keys


@pytest.mark.parametrize(
    ("calls", "keys"),
    [
        # The unit-test shapes of lablup/mlxcel#679, window 8.
        ([12], [12]),
        ([8, 5], [8, 12]),
        ([12, 5], [12, 12]),
        ([8, 8, 3], [8, 15, 10]),
        ([3, 3, 3], [3, 6, 9]),
        ([20, 1, 1, 5], [20, 8, 8, 12]),
        ([5, 1, 1, 1, 1, 1, 4], [5, 6, 7, 8, 8, 8, 11]),
    ],
)
def test_a_rotating_cache_returns_what_the_public_unit_tests_say(calls, keys):
    held, seen = 0, []
    for q in calls:
        seen.append(returned_keys("rotating", q, held, window=8))
        held += q
    assert seen == keys


@pytest.mark.parametrize(
    ("offset", "q", "full", "at_512", "at_1024", "at_128"),
    [
        # Production shapes of lablup/mlxcel#885: chunk 512, total 2201, the last chunk padded to 160.
        (0, 512, 512, 512, 512, 512),
        (512, 512, 1024, 1023, 1024, 639),
        (1024, 512, 1536, 1023, 1535, 639),
        (2048, 153, 2201, 664, 1176, 280),
        (2048, 160, 2208, 671, 1183, 287),
    ],
)
def test_the_chunks_of_the_public_report(offset, q, full, at_512, at_1024, at_128):
    assert returned_keys("dense", q, offset) == full
    for window, keys in ((512, at_512), (1024, at_1024), (128, at_128)):
        assert returned_keys("rotating", q, offset, window=window) == keys
        assert returned_keys("batch_rotating", q, offset, window=window) == keys


def test_a_key_cap_counts_the_live_keys():
    """lablup/mlxcel#419: cap 1024, the fourth and sixth chunk."""
    assert returned_keys("dense", 512, 1536, live=1024) == 1536
    assert returned_keys("dense", 71, 2560, live=1024) == 1095


def test_a_buffered_ring_grows_and_falls_back_at_a_compaction():
    """mlxcel's speculative ring: W 8, slack 32, prompt 8, blocks of 2: 10, 12, ... 40, then 9, 11, ..."""
    held, seen = 8, []
    for step in range(18):
        keys = returned_keys("buffered", 2, 8 + 2 * step, window=8, slack=32, live=held)
        seen.append(keys)
        held = keys
    assert seen == [*range(10, 42, 2), 9, 11]


def test_a_buffered_ring_whose_filling_is_unknown_may_return_a_range():
    assert returned_bounds("buffered", 2, 40, window=8, slack=32) == (9, 40)
    assert returned_keys("buffered", 2, 40, window=8, slack=32) is None


def test_a_ring_no_wider_than_its_sinks_keeps_the_sinks_alone():
    assert returned_keys("rotating", 3, 20, window=8, keep=4) == 10
    assert returned_keys("rotating", 3, 20, window=4, keep=6) == 9


def test_a_chunked_cache_starts_where_it_says():
    assert returned_keys("chunked", 4, 8200, window=8192, live=8192) == 8196
    assert returned_keys("chunked", 1, 100, window=8192) == 101


@pytest.mark.parametrize(
    ("cursor", "q", "keys"),
    [(0, 4, 8), (0, 12, 12), (6, 2, 8), (6, 4, 10), (8, 1, 8), (8, 4, 11), (20, 1, 8)],
)
def test_a_static_sliding_cache_of_eight_slots(cursor, q, keys):
    """transformers: `c >= S`: S-1+q; crossing: c+q; else S."""
    assert returned_keys("static_sliding", q, cursor, window=8, buffer=64) == keys


def test_a_static_cache_returns_its_whole_buffer_and_nothing_can_be_said_without_it():
    assert returned_keys("static", 4, 8, buffer=64) == 64
    assert returned_keys("static", 4, 8) is None
    assert returned_keys("rotating", 4, 8) is None


def test_paged_rows_hold_their_own_tokens():
    assert returned_keys("paged", 2, 10) == 12
    assert returned_bounds("paged", 2, 10, window=4) == (5, 12)


@pytest.mark.parametrize(
    ("q", "window", "rows"), [(298, 128, 170), (1511, 1024, 487), (768, 512, 256), (512, 512, 0)]
)
def test_empty_rows_of_a_capped_mask(q, window, rows):
    assert geometry.empty_rows(q, window) == rows


@pytest.mark.parametrize(("q", "live", "window"), [(5, 0, 3), (4, 6, 8), (8, 8, 8), (3, 0, 8), (9, 2, 4)])
def test_narrowed_rows_agree_with_the_rows_written_out(q, live, window):
    """The builder: `k <= q + (W - l)` over the last W columns; required: `min(live + i + 1, W)`."""
    narrowed = 0
    for row in range(q):
        seen = sum(column <= row + window - q for column in range(window))
        narrowed += 0 < seen < min(live + row + 1, window)
    assert geometry.narrowed_rows(q, live, window) == narrowed


@pytest.mark.parametrize(
    ("kind", "position", "window", "start", "count"),
    [
        ("full", 9, None, 0, 10),
        ("full", 9, None, 4, 6),
        ("sliding", 3, 8, 0, 4),
        ("sliding", 20, 8, 0, 8),
        ("chunked", 20, 8, 0, 5),
        ("chunked", 15, 8, 0, 8),
        ("sliding", 20, None, 0, None),
        ("recurrent", 20, None, 0, None),
        ("full", -3, None, 0, 0),
    ],
)
def test_required_counts(kind, position, window, start, count):
    assert geometry.required_count(kind, position, window, start) == count
