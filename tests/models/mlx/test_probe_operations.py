"""Operations on caches outside a forward, on the library's own classes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import mlx.core as mx
import pytest
from mlx_lm.models.cache import (
    ArraysCache,
    BatchKVCache,
    BatchRotatingKVCache,
    CacheList,
    ChunkedKVCache,
    KVCache,
    RotatingKVCache,
)

from mlxdiag.models.mlx.caches import BufferedRotatingKVCache, FrontTrimKVCache
from mlxdiag.models.mlx.probe import CacheEvent, Event, Probe


@pytest.fixture
def told() -> Iterator[list[CacheEvent]]:
    events: list[Event] = []
    with Probe(events.append):
        yield events  # type: ignore[misc]


def filled(cache: Any, *lengths: int) -> Any:
    for n in lengths:
        keys = mx.ones((1, 1, n, 32))
        cache.update_and_fetch(keys, keys)
    return cache


@pytest.mark.parametrize(
    ("cache", "kind", "held", "done"),
    [
        (KVCache, "dense", 10, 4),
        (lambda: RotatingKVCache(16), "rotating", 10, 4),
        (lambda: BufferedRotatingKVCache(8, 4), "buffered", 10, 4),
        (lambda: ChunkedKVCache(8), "chunked", 10, 4),
        (FrontTrimKVCache, "dense", 10, 4),
        (KVCache, "dense", 3, 3),
    ],
)
def test_a_trim(cache: Any, kind: str, held: int, done: int, told: list[CacheEvent]) -> None:
    assert filled(cache(), held).trim(4) == done
    (event,) = told
    assert (event.op, event.kind, event.before, event.asked, event.done, event.after) == (
        "trim",
        kind,
        held,
        4,
        done,
        held - done,
    )


def test_a_front_trim_leaves_the_offset(told: list[CacheEvent]) -> None:
    filled(FrontTrimKVCache(), 12).cap(8)
    (event,) = told
    assert (event.op, event.asked, event.done, event.before, event.after) == ("trim_front", 4, 4, 12, 12)


def test_a_chunked_cache_that_drops_nothing_is_silent(told: list[CacheEvent]) -> None:
    cache = filled(ChunkedKVCache(8), 8)
    cache.maybe_trim_front()
    assert told == []
    filled(cache, 3).maybe_trim_front()
    assert [(e.op, e.done, e.before) for e in told] == [("trim_front", 3, 11)]


def test_members_of_a_compound_cache_are_told_each(told: list[CacheEvent]) -> None:
    CacheList(filled(KVCache(), 5), filled(RotatingKVCache(8), 5)).trim(2)
    assert [(e.kind, e.done) for e in told] == [("dense", 2), ("rotating", 2)]


class TestRows:
    def test_merge_names_its_parents_and_their_lengths(self, told: list[CacheEvent]) -> None:
        batch = KVCache.merge([filled(KVCache(), 7), filled(KVCache(), 300), KVCache()])
        (event,) = told
        assert isinstance(batch, BatchKVCache)
        assert (event.op, event.kind, event.declared, event.sizes) == (
            "merge",
            "batch",
            [7, 300, 0],
            [7, 300, 0],
        )
        assert event.after == [7, 300, 0]
        assert len(set(event.parents)) == 3
        assert event.uid not in event.parents

    @pytest.mark.parametrize("lengths", [(5,), (5, 5), (20,), (20, 1), (3, 1, 1, 1, 1, 1, 1, 1), (20, 1, 3)])
    def test_a_healthy_ring_has_what_it_declares(
        self, lengths: tuple[int, ...], told: list[CacheEvent]
    ) -> None:
        ring = filled(RotatingKVCache(8), *lengths)
        RotatingKVCache.merge([ring, filled(RotatingKVCache(8), 2)])
        assert told[-1].declared == told[-1].sizes == [min(sum(lengths), 8), 2]

    def test_a_ring_that_lost_keys_declares_more_than_it_has(self, told: list[CacheEvent]) -> None:
        ring = filled(RotatingKVCache(8), 6)
        ring.keys, ring.values = ring.keys[..., :4, :], ring.values[..., :4, :]
        ring._idx = 4
        with pytest.raises(ValueError, match="broadcast"):
            RotatingKVCache.merge([ring, filled(RotatingKVCache(8), 2)])
        assert (told[-1].declared, told[-1].sizes) == ([6, 2], [4, 2])
        assert told[-1].error is not None
        assert "broadcast" in told[-1].error

    def test_filter_extend_and_extract(self, told: list[CacheEvent]) -> None:
        first = KVCache.merge([filled(KVCache(), 4), filled(KVCache(), 6)])
        second = KVCache.merge([filled(KVCache(), 2)])
        first.filter([1])
        first.extend(second)
        single = first.extract(1)
        single.trim(0)
        merge, other, kept, joined, taken, trim = told
        assert (kept.op, kept.rows, kept.before, kept.after) == ("filter", [1], [4, 6], [6])
        assert (joined.op, joined.parents, joined.after) == ("extend", [merge.uid, other.uid], [6, 2])
        assert (taken.op, taken.rows, taken.parents, taken.before, taken.after) == (
            "extract",
            [1],
            [merge.uid],
            [6, 2],
            2,
        )
        assert taken.uid == trim.uid
        assert (taken.name, taken.kind) == ("KVCache", "dense")

    def test_padding_on_the_right_is_taken_back_by_finalize(self, told: list[CacheEvent]) -> None:
        batch = BatchRotatingKVCache(8, [0, 0])
        batch.prepare(lengths=[5, 3], right_padding=[0, 2])
        keys = mx.ones((2, 1, 5, 4))
        batch.update_and_fetch(keys, keys)
        batch.finalize()
        assert [(e.op, e.before, e.after) for e in told] == [
            ("prepare", [0, 0], [0, 0]),
            ("finalize", [5, 5], [5, 3]),
        ]

    def test_recurrent_state_has_no_offset(self, told: list[CacheEvent]) -> None:
        state = ArraysCache(1)
        state[0] = mx.ones((2, 3))
        state.filter([0])
        assert [(e.op, e.kind, e.before, e.after) for e in told] == [("filter", "recurrent", None, None)]


def test_an_operation_that_is_refused_is_told_with_its_error(told: list[CacheEvent]) -> None:
    with pytest.raises(NotImplementedError):
        filled(RotatingKVCache(8), 3).to_quantized()
    (event,) = told
    assert (event.op, event.error) == (
        "to_quantized",
        "NotImplementedError: RotatingKVCache Quantization NYI",
    )


def test_a_quantised_cache_goes_on_under_a_name_of_its_own(told: list[CacheEvent]) -> None:
    quantized = filled(KVCache(), 3).to_quantized(group_size=32, bits=4)
    quantized.trim(1)
    conversion, trim = told
    assert (conversion.kind, conversion.kv_bits, conversion.before, conversion.after) == (
        "quantized",
        4,
        3,
        3,
    )
    assert conversion.uid == trim.uid
    assert conversion.parents != [conversion.uid]
