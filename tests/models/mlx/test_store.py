"""The server's prompt cache: asked as the server asks it, and traces that use it."""

import numpy as np
import pytest
from mlx_lm.models.cache import KVCache, RotatingKVCache

from mlxdiag.errors import UnjudgedError, UnreadableError
from mlxdiag.inspect.findings import codes
from mlxdiag.models.mlx.store import Store
from mlxdiag.replay import experiment
from tests.replay.traces import trace

SCHEDULE = """
    {"step": 1, "rows": [{"seq": "a", "offset": 0, "tokens": 7}]}
    {"step": 2, "phase": "save", "rows": [{"seq": "a"}]}
    {"step": 3, "phase": "adopt", "rows": [{"seq": "b", "matched": 4, "entry": 7, "trimmed": 3, "restored": 4}]}
    {"step": 4, "rows": [{"seq": "b", "offset": 4, "tokens": 9}]}
    {"step": 5, "rows": [{"seq": "b", "offset": 13, "tokens": 1}]}"""
HEADER = 'scheduler: {"store": "trie"}\n'


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


def run(steps, header=HEADER):
    prepared = experiment.prepare(trace(steps, "gemma3_text", header), source="t.yaml")
    instance = experiment.instance_for(prepared)
    return experiment.run_policies(prepared, instance, ("strict",))[0]


def test_a_request_goes_on_from_the_entry_of_another():
    ran = run(SCHEDULE)
    assert not codes(f for f in ran.report.findings if f.severity != "info")
    assert ran.outcome.compared == 17


EXACT = SCHEDULE.replace(
    '"matched": 4, "entry": 7, "trimmed": 3, "restored": 4', '"matched": 7, "total": 7'
).replace('"offset": 4, "tokens": 9', '"offset": 7, "tokens": 6')


def test_a_whole_prompt_that_is_stored_leaves_nothing_for_the_servers_batch():
    ran = run(EXACT)
    (failed,) = [entry for entry in ran.trace.entries if entry.error is not None]
    assert failed.step == 3
    assert failed.error.text == "Sequence 0 has an empty prompt."


def test_a_store_that_keeps_a_token_back_has_it_fed(monkeypatch):
    from mlx_lm.models.cache import LRUPromptCache, trim_prompt_cache

    right = LRUPromptCache.fetch_nearest_cache

    def but_one(self, model, tokens):
        caches, rest = right(self, model, tokens)
        if caches is None or rest:
            return caches, rest
        trim_prompt_cache(caches, 1)
        return caches, tokens[-1:]

    monkeypatch.setattr(LRUPromptCache, "fetch_nearest_cache", but_one)
    ran = run(EXACT)
    assert not codes(f for f in ran.report.findings if f.severity != "info")
    assert ran.outcome.compared == 14


def test_caches_that_cannot_be_batched_get_a_generation_of_their_own():
    from mlx_lm.models.cache import ChunkedKVCache

    with pytest.raises(ValueError, match="prompt"):
        Store().begin(None, ids(1, 2, 3, 4), held(ChunkedKVCache(8), tokens=4))


def test_an_entry_that_the_store_does_not_give_back_cannot_be_replayed():
    longer = SCHEDULE.replace('"tokens": 7', '"tokens": 12')
    longer = longer.replace('"entry": 7, "trimmed": 3', '"entry": 12, "trimmed": 8')
    with pytest.raises(UnjudgedError, match="gives back 0 tokens"):
        run(longer)


def test_an_unknown_store_is_refused():
    with pytest.raises(UnreadableError, match=r"scheduler\.store"):
        run(SCHEDULE, 'scheduler: {"store": "redis"}\n')
