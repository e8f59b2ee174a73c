"""Buffers grow by a few slots while a schedule runs, and by the library's own number of them afterwards."""

import pytest
from mlx_lm.models import cache

from mlxdiag.audit.judge.judge import prepare
from mlxdiag.audit.judge.trial import Trial
from mlxdiag.audit.schedules.scenarios import named
from mlxdiag.models.mlx import zoo


@pytest.fixture(scope="module")
def trial():
    instance = zoo.tiny("qwen3")
    setting = prepare(instance, named("chunks-not-dividing"))
    return Trial(instance, setting.plan, setting.prompts, None, 1.0)


def steps():
    kinds = [kind for kind in vars(cache).values() if isinstance(kind, type)]
    return {kind.__name__: kind.step for kind in kinds if hasattr(kind, "step")}


def test_the_buffer_of_a_dense_cache_grows_while_it_holds_tokens(trial, monkeypatch):
    grown = []

    def update_and_fetch(held, keys, values):
        before = held.offset and held.keys.shape[2]
        returned = right(held, keys, values)
        grown.append((before, held.keys.shape[2]))
        return returned

    right = cache.KVCache.update_and_fetch
    monkeypatch.setattr(cache.KVCache, "update_and_fetch", update_and_fetch)
    trial.run()
    assert any(0 < before < after for before, after in grown)


def test_the_step_is_the_librarys_own_afterwards(trial, monkeypatch):
    before = steps()
    assert before["KVCache"] == 256
    trial.run()
    assert steps() == before

    def broken(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(trial, "_op", broken)
    with pytest.raises(KeyboardInterrupt):
        trial.run()
    assert steps() == before
