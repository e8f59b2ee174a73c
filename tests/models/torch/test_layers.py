"""Cache layers of our own, against what the caches of the other library that they retell answer."""

import numpy as np
import pytest

pytest.importorskip("torch", reason="no torch: pip install 'mlxdiag[torch]'")

import torch

from mlxdiag.models.mlx import caches as retold
from mlxdiag.models.torch.layers import BufferedSlidingLayer, ClampedSlidingLayer, FrontTrimLayer

W, SLACK = 8, 5


def rows(start, count):
    """Keys [1, 1, count, 1] that carry their own position."""
    return np.arange(start, start + count, dtype=np.float32).reshape(1, 1, count, 1)


def fed(layer, cache, sizes):
    """What both return for the same tokens, call by call."""
    mx = pytest.importorskip("mlx.core")
    at = 0
    for size in sizes:
        if size < 0:
            layer.crop(size)
            cache.trim(-size)
            at += size
            continue
        new = rows(at, size)
        sizes_of_mask = layer.get_mask_sizes(size)
        mine = layer.update(torch.from_numpy(new), torch.from_numpy(new))[0].numpy().ravel()
        theirs = np.array(cache.update_and_fetch(mx.array(new), mx.array(new))[0]).ravel()
        at += size
        yield size, sizes_of_mask, mine, theirs, at


@pytest.mark.parametrize("sizes", [(6, 1, 1, 1, 5), (8, 3, -2, 3, -1, 4, 4, 1, 1), (20, 1, 2, 2, 2, 2, 9)])
def test_a_buffered_window_keeps_what_the_retold_ring_keeps(sizes):
    layer, cache = BufferedSlidingLayer(W, SLACK), retold.BufferedRotatingKVCache(W, SLACK)
    for size, (length, first), mine, theirs, at in fed(layer, cache, sizes):
        assert mine.tolist() == theirs.tolist()
        assert layer.get_seq_length() == at
        if size == 1:
            assert (length, first) == (len(mine), mine[0])
        else:
            assert length == min(len(mine) - size, W - 1) + size
            assert first == at - length


@pytest.mark.parametrize("sizes", [(3, 3, 3), (20, 5, 5), (6, 12, 4)])
def test_a_clamped_window_returns_the_last_keys_as_the_retold_ring_does(sizes):
    layer, cache = ClampedSlidingLayer(W), retold.ClampedRotatingKVCache(W)
    for _, (length, first), mine, theirs, at in fed(layer, cache, sizes):
        assert mine.tolist() == theirs.tolist()
        assert (length, first) == (len(mine), mine[0])
        assert layer.get_seq_length() == at


def test_a_single_token_of_a_clamped_window_finds_the_whole_window():
    layer, cache = ClampedSlidingLayer(W), retold.ClampedRotatingKVCache(W)
    for _, _, mine, theirs, _ in fed(layer, cache, (6, 1, 1, 1, 1)):
        assert mine.tolist() == sorted(theirs.tolist())


@pytest.mark.parametrize(("count", "sinks"), [(3, 0), (3, 2)])
def test_a_front_trim_drops_the_oldest_behind_the_sinks_and_counts_on(count, sinks):
    layer, cache = FrontTrimLayer(), retold.FrontTrimKVCache(sinks)
    list(fed(layer, cache, (9,)))
    assert layer.drop_front(count, sinks) == cache.trim_front_keep_sink(count, sinks) == count
    assert layer.keys.numpy().ravel().tolist() == np.array(cache.keys).ravel().tolist()
    assert layer.get_seq_length() == cache.offset == 9
    assert layer.get_mask_sizes(4) == (9 - count + 4, count)
