"""Rounded caches: the numbers of a quantised cache through float attention."""

import mlx.core as mx
import numpy as np
import pytest
from mlx_lm.models import base
from mlx_lm.models.cache import ArraysCache, KVCache, RotatingKVCache

from mlxdiag.audit.judge import rounded
from mlxdiag.audit.judge.judge import judge
from mlxdiag.audit.schedules.scenarios import named
from mlxdiag.models.mlx import zoo
from mlxdiag.models.mlx.batching import GROUP


def filled(tokens=5):
    held = KVCache()
    held.update_and_fetch(*(mx.random.normal((1, 2, tokens, 32), key=mx.random.key(i)) for i in range(2)))
    return held


def test_what_it_holds_is_what_the_quantised_cache_holds():
    held = filled()
    twin = rounded.RoundedKVCache.of(held, 8)
    quantised = held.to_quantized(group_size=GROUP, bits=8)
    more = mx.random.normal((1, 2, 3, 32), key=mx.random.key(7))
    keys, _ = twin.update_and_fetch(more, more)
    triple, _ = quantised.update_and_fetch(more, more)
    expected = mx.dequantize(*triple, group_size=GROUP, bits=8)
    np.testing.assert_array_equal(np.array(keys), np.array(expected))
    assert not hasattr(twin, "bits")


def test_states_are_left_alone_and_rings_refused():
    state = ArraysCache(1)
    assert rounded.converted([state], 8) == [state]
    with pytest.raises(NotImplementedError):
        rounded.converted([RotatingKVCache(8)], 8)


def test_quantised_keys_are_compared_at_every_position_and_a_wrong_mask_is_seen(monkeypatch):
    instance = zoo.tiny("mixtral")
    found = judge(instance, named("quantized-keys"), noise=1e-6)
    assert found.result == "pass"
    assert found.judged["parity"] == 18
    right = base.quantized_scaled_dot_product_attention

    def unmasked(queries, keys, values, scale, mask, **more):
        return right(queries, keys, values, scale=scale, mask=None, **more)

    monkeypatch.setattr(base, "quantized_scaled_dot_product_attention", unmasked)
    found = judge(instance, named("quantized-keys"), noise=1e-6)
    assert found.result == "fail"
    assert "parity" in found.oracles
