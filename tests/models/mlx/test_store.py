"""The prompt cache of mlx-lm's server, asked as the server asks it."""

import numpy as np
import pytest
from mlx_lm.models.cache import ChunkedKVCache, KVCache, RotatingKVCache

from mlxdiag.models.mlx.store import Store


def held(*caches, tokens):
    import mlx.core as mx

    for cache in caches:
        cache.update_and_fetch(mx.ones((1, 1, tokens, 4)), mx.ones((1, 1, tokens, 4)))
    return list(caches)


def ids(*values):
    return np.array(values, np.int32)


def test_the_nearest_entry_is_given_back_cut_to_what_is_common():
    store = Store()
    assert store.fetch(ids(1, 2, 3)) == (None, 0)
    store.insert(ids(1, 2, 3, 4), held(KVCache(), tokens=4))
    assert store.fetch(ids(1, 2, 3, 4, 5))[1] == 4
    caches, restored = store.fetch(ids(1, 2, 9, 9))
    assert (restored, caches[0].offset) == (2, 2)


def test_a_ring_that_has_wrapped_is_not_cut():
    store = Store()
    store.insert(ids(*range(1, 10)), held(RotatingKVCache(4), tokens=9))
    assert store.fetch(ids(1, 2, 3, 99)) == (None, 0)


def test_caches_that_cannot_be_batched_get_a_generation_of_their_own():
    with pytest.raises(ValueError, match="prompt"):
        Store().begin(None, ids(1, 2, 3, 4), held(ChunkedKVCache(8), tokens=4))
