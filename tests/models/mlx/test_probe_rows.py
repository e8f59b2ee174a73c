"""Rows of batch caches are followed without reading arrays; here the arrays are read, to compare."""

from __future__ import annotations

import copy
import random
from collections.abc import Iterator
from typing import Any

import mlx.core as mx
import pytest
from mlx_lm.models.cache import BatchKVCache, BatchRotatingKVCache, KVCache, RotatingKVCache

from mlxdiag.models.mlx.probe import CacheEvent, Event, Probe
from mlxdiag.models.mlx.probe_tags import tag_of


@pytest.fixture
def events() -> Iterator[list[Event]]:
    told: list[Event] = []
    with Probe(told.append):
        yield told


def feed(cache: Any, n: int) -> None:
    rows = cache.offset.shape[0] if isinstance(cache.offset, mx.array) else 1
    keys = mx.zeros((rows, 1, n, 4))
    cache.update_and_fetch(keys, keys)


def check(cache: Any) -> None:
    tag = tag_of(cache)
    assert tag.offsets == cache.offset.tolist()
    assert tag.left == cache.left_padding.tolist()


def fresh(kind: str, window: int, padding: list[int]) -> Any:
    return BatchKVCache(padding) if kind == "batch" else BatchRotatingKVCache(window, padding)


def single(kind: str, window: int, n: int, rng: random.Random) -> Any:
    cache = KVCache() if kind == "batch" else RotatingKVCache(window)
    while n:
        some = rng.randint(1, n)
        feed(cache, some)
        n -= some
    return cache


def step(cache: Any, kind: str, window: int, rng: random.Random) -> Any:
    """One random operation that a batch engine performs."""
    rows = cache.offset.shape[0]
    op = rng.choice(["feed", "decode", "decode", "ragged", "trim", "filter", "extend", "merge", "copy"])
    if op == "feed":
        feed(cache, rng.randint(2, 2 * window))
    elif op == "decode":
        feed(cache, 1)
    elif op == "ragged":
        longest = rng.randint(2, 2 * window)
        lengths = [longest, *(rng.randint(1, longest) for _ in range(rows - 1))]
        cache.prepare(lengths=lengths, right_padding=[longest - n for n in lengths])
        feed(cache, longest)
        cache.finalize()
    elif op == "trim" and cache.is_trimmable():
        cache.trim(rng.randint(0, 2))
    elif op == "filter":
        cache.filter(sorted(rng.sample(range(rows), rng.randint(1, rows))))
    elif op == "extend" and rows < 6 and not cache.empty():
        merge = BatchKVCache.merge if kind == "batch" else BatchRotatingKVCache.merge
        cache.extend(merge([single(kind, window, rng.randint(1, 2 * window), rng) for _ in range(2)]))
    elif op == "merge" and not cache.empty():
        merge = BatchKVCache.merge if kind == "batch" else BatchRotatingKVCache.merge
        return merge([cache.extract(row) for row in range(rows)])
    elif op == "copy":
        return copy.deepcopy(cache)
    return cache


@pytest.mark.parametrize("kind", ["batch", "batch_rotating"])
@pytest.mark.parametrize("seed", range(25))
def test_offsets_and_paddings_agree_with_the_arrays(kind: str, seed: int, events: list[Event]) -> None:
    rng = random.Random(seed)
    window = rng.choice([2, 3, 8, 16])
    cache = fresh(kind, window, [rng.randint(0, 3) for _ in range(rng.randint(1, 4))])
    check(cache)
    feed(cache, rng.randint(4, 12))
    for _ in range(30):
        cache = step(cache, kind, window, rng)
        check(cache)


def test_paddings_given_to_prepare_count_before_the_first_key(events: list[Event]) -> None:
    cache = BatchKVCache([0, 0])
    cache.prepare(left_padding=[2, 0])
    feed(cache, 4)
    check(cache)
    assert tag_of(cache).offsets == [2, 4]


def test_an_array_of_row_numbers_is_not_read(events: list[Event]) -> None:
    cache = BatchKVCache([1, 0])
    feed(cache, 4)
    cache.filter(mx.array([1]))
    assert tag_of(cache).offsets is None
    assert [e.rows for e in events if isinstance(e, CacheEvent)] == [None]


def test_a_cache_made_before_the_probe_has_unknown_rows() -> None:
    cache = BatchKVCache([1, 0])
    told: list[Event] = []
    with Probe(told.append):
        cache.trim(0)
    assert [(e.before, e.done) for e in told if isinstance(e, CacheEvent)] == [(None, 0)]
