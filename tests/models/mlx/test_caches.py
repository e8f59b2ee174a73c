"""Expected lengths and positions are worked tables and documented formulas of a Rust server's caches."""

from __future__ import annotations

from typing import Any

import mlx.core as mx
import pytest
from mlx_lm.models.cache import RotatingKVCache

from mlxdiag.models.mlx.caches import (
    BufferedRotatingKVCache,
    ClampedRotatingKVCache,
    FrontTrimKVCache,
    SlicedKVCache,
    capped_mask,
)


def feed(cache: Any, n: int) -> list[int]:
    """Append `n` keys that carry their own position; returns the positions of the returned keys."""
    positions = mx.arange(cache.offset, cache.offset + n, dtype=mx.float32).reshape(1, 1, n, 1)
    keys, values = cache.update_and_fetch(positions, positions)
    assert keys.shape == values.shape
    return [int(p) for p in keys.reshape(-1).tolist()]


def span(first: int, last: int) -> list[int]:
    return list(range(first, last + 1))


class TestBuffered:
    def test_single_tokens_grow_to_window_plus_slack_then_compact(self) -> None:
        cache = BufferedRotatingKVCache(max_size=4, slack=2)
        assert [len(feed(cache, 1)) for _ in range(6)] == [1, 2, 3, 4, 5, 6]
        assert feed(cache, 1) == span(3, 6)

    def test_trim_is_exact(self) -> None:
        cache = BufferedRotatingKVCache(max_size=4, slack=2)
        for _ in range(7):
            feed(cache, 1)
        assert cache.trim(2) == 2
        assert feed(cache, 2) == span(3, 6)

    def test_blocks_of_two_grow_to_forty_then_fall_back(self) -> None:
        cache = BufferedRotatingKVCache(max_size=8, slack=32)
        assert len(feed(cache, 8)) == 8
        assert [len(feed(cache, 2)) for _ in range(18)] == [*range(10, 41, 2), 9, 11]

    def test_its_mask_stays_nine_while_keys_grow_past_it(self) -> None:
        cache = BufferedRotatingKVCache(max_size=8, slack=32)
        feed(cache, 8)
        seen = []
        for _ in range(3):
            mask = cache.make_mask(2)
            assert mask is not None
            seen.append((mask.shape, len(feed(cache, 2))))
        assert seen == [((2, 9), 10), ((2, 9), 12), ((2, 9), 14)]

    def test_mask_and_keys_agree_at_a_compaction(self) -> None:
        cache = BufferedRotatingKVCache(max_size=8, slack=32)
        for n in [8] + [2] * 16:
            feed(cache, n)
        assert cache.offset == 40
        mask = cache.make_mask(2)
        assert mask is not None
        assert mask.shape == (2, len(feed(cache, 2)))

    def test_a_single_query_sees_only_the_newest_window(self) -> None:
        cache = BufferedRotatingKVCache(max_size=4, slack=8)
        for _ in range(6):
            feed(cache, 1)
        mask = cache.make_mask(1)
        positions = feed(cache, 1)
        assert mask is not None
        assert [p for p, m in zip(positions, mask[0].tolist(), strict=True) if m] == span(3, 6)

    def test_a_wrapped_ring_is_taken_over_in_order(self) -> None:
        ring = RotatingKVCache(max_size=8)
        for n in (5, 1, 1, 1, 1, 1):
            feed(ring, n)
        cache = BufferedRotatingKVCache.from_rotating(ring, slack=32)
        assert cache.live_start == 2
        assert feed(cache, 2) == span(2, 11)


class TestFrontTrim:
    def test_key_cap_of_1024_with_chunks_of_512(self) -> None:
        cache = FrontTrimKVCache()
        returned, masks = [], []
        for n in (512, 512, 512, 512, 512, 71):
            mask = cache.make_mask(n, return_array=True)
            assert isinstance(mask, mx.array)
            masks.append(mask.shape[-1])
            returned.append(len(feed(cache, n)))
            cache.cap(1024)
        assert returned == [512, 1024, 1536, 1536, 1536, 1095]
        assert masks == returned
        assert cache.offset == 2631

    def test_sinks_stay_in_front_and_the_rest_is_chronological(self) -> None:
        cache = FrontTrimKVCache(sinks=4)
        feed(cache, 12)
        assert cache.cap(8) == 4
        assert cache.live_start == 4
        assert feed(cache, 1) == [0, 1, 2, 3, *span(8, 12)]

    def test_a_plain_front_trim_drops_the_oldest_and_keeps_the_offset(self) -> None:
        cache = FrontTrimKVCache(sinks=0)
        feed(cache, 10)
        assert cache.trim_front(3) == 3
        assert (cache.offset, cache.live, cache.live_start) == (10, 7, 3)
        assert feed(cache, 2) == span(3, 11)

    def test_no_more_is_dropped_than_is_held(self) -> None:
        cache = FrontTrimKVCache()
        feed(cache, 3)
        assert cache.trim_front(9) == 3
        assert cache.empty()
        assert feed(cache, 1) == [3]

    def test_a_tail_trim_moves_the_offset_back(self) -> None:
        cache = FrontTrimKVCache()
        feed(cache, 10)
        assert cache.trim(4) == 4
        assert feed(cache, 1) == span(0, 6)


class TestClamped:
    def test_continuations_keep_only_the_window(self) -> None:
        cache = ClampedRotatingKVCache(8)
        assert feed(cache, 8) == span(0, 7)
        assert feed(cache, 8) == span(8, 15)
        assert feed(cache, 3) == span(11, 18)

    def test_a_first_call_past_the_window_keeps_everything(self) -> None:
        assert feed(ClampedRotatingKVCache(8), 12) == span(0, 11)

    def test_single_tokens_are_an_ordinary_ring(self) -> None:
        ours, library = ClampedRotatingKVCache(8), RotatingKVCache(max_size=8)
        assert [feed(ours, n) for n in (20, 1, 1)] == [feed(library, n) for n in (20, 1, 1)]

    @pytest.mark.parametrize(
        ("window", "first", "n", "keys"), [(512, 512, 512, 512), (512, 512, 153, 512), (512, 100, 50, 150)]
    )
    def test_its_mask_fits_its_keys(self, window: int, first: int, n: int, keys: int) -> None:
        cache = ClampedRotatingKVCache(window)
        feed(cache, first)
        mask = cache.make_mask(n)
        assert isinstance(mask, mx.array)
        assert (mask.shape[-1], len(feed(cache, n))) == (keys, keys)


class TestSliced:
    def test_second_chunk_of_768_over_512_leaves_256_empty_rows(self) -> None:
        cache = SlicedKVCache(512, capped=True)
        feed(cache, 768)
        mask = cache.make_mask(768)
        assert mask is not None
        assert mask.shape == (768, 512)
        assert int((~mask.any(axis=-1)).sum()) == 256
        assert len(feed(cache, 768)) == 1536

    def test_uncapped_it_is_the_whole_band(self) -> None:
        cache = SlicedKVCache(4)
        feed(cache, 6)
        mask = cache.make_mask(2)
        assert mask is not None
        assert mask.tolist() == [[max(0, q - 3) <= k <= q for k in range(8)] for q in (6, 7)]
        assert cache.make_mask(1) is None


@pytest.mark.parametrize(
    ("length", "window", "empty"),
    [(298, 128, 170), (1511, 1024, 487), (768, 512, 256), (700, 512, 188), (512, 512, 0)],
)
def test_empty_rows_of_a_capped_mask(length: int, window: int, empty: int) -> None:
    mask = capped_mask(length, 0 if length != 512 else 512, window)
    assert mask.shape == (length, window)
    assert int((~mask.any(axis=-1)).sum()) == empty
