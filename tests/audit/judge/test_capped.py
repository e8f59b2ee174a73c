"""Parity under a key cap: what a query saw decides what it must answer."""

import mlx.core as mx
import pytest
from mlx_lm.models import cache

from mlxdiag.audit.judge.capped import lacking
from mlxdiag.audit.judge.judge import judge
from mlxdiag.audit.schedules.scenarios import named
from mlxdiag.models.mlx import zoo
from mlxdiag.traces.types import Attention


@pytest.fixture(scope="module")
def instance():
    return zoo.tiny("mixtral")


@pytest.mark.parametrize("scenario", ["key-cap", "key-cap-over"])
def test_keys_lost_on_purpose_are_no_fault_and_every_position_is_compared(instance, scenario):
    found = judge(instance, named(scenario), noise=1e-6)
    assert found.result == "pass"
    assert "by design" in found.reason
    assert found.judged["parity"] == found.judged["visibility"]


def test_keys_lost_beyond_the_cap_are_a_fault(instance, monkeypatch):
    right = cache.RotatingKVCache._trim

    def greedy(self, trim_size, v, append=None):
        return right(self, trim_size + 3 if trim_size > 0 else trim_size, v, append)

    monkeypatch.setattr(cache.RotatingKVCache, "_trim", greedy)
    found = judge(instance, named("key-cap"), noise=1e-6)
    assert found.wrong


def test_a_wrong_position_under_the_cap_is_seen_by_parity_alone(instance, monkeypatch):
    right = mx.fast.rope

    def late(x, *args, offset=0, **more):
        return right(x, *args, offset=offset + 1 if offset == 9 else offset, **more)

    monkeypatch.setattr(mx.fast, "rope", late)
    found = judge(instance, named("key-cap"), noise=1e-6)
    assert found.result == "fail"
    assert "parity" in found.oracles
    assert "visibility" not in found.oracles
    assert found.evidence["first"] >= 9


@pytest.fixture
def rolls_with_the_pinned_keys_left_out(monkeypatch):
    """mlx-lm 0.32 rolls the mask of a single token over the pinned keys, too: here as it should be."""

    def make_mask(self, n, window_size=None, return_array=False):
        if n > 1 or window_size is None or self.offset < window_size:
            return right(self, n, window_size, return_array)
        held = min(self.offset + 1, self.max_size)
        at = self._idx if self._idx < self.max_size else self.keep
        positions = list(range(min(self.keep, held))) + [0] * (held - self.keep)
        for back in range(held - self.keep):
            slot = self.keep + (at - self.keep - back) % (self.max_size - self.keep)
            if slot < held:
                positions[slot] = self.offset - back
        return mx.array([position > self.offset - window_size for position in positions])

    right = cache.RotatingKVCache.make_mask
    monkeypatch.setattr(cache.RotatingKVCache, "make_mask", make_mask)


@pytest.mark.parametrize("scenario", ["key-cap", "key-cap-over"])
def test_windowed_layers_below_the_cap_see_their_window(scenario, rolls_with_the_pinned_keys_left_out):
    found = judge(zoo.tiny("mistral3"), named(scenario), noise=1e-6)
    assert found.result == "pass", found.reason
    assert 2 * found.judged["parity"] == found.judged["visibility"]  # of two kinds of layers


@pytest.mark.parametrize("scenario", ["key-cap", "key-cap-over"])
def test_windowed_layers_below_the_cap_that_lose_their_window_are_a_fault(scenario):
    found = judge(zoo.tiny("mistral3"), named(scenario), noise=1e-6)
    assert found.result == "fail"
    assert found.evidence["layers"] == [0, 2]
    assert "MD305" in found.codes


def test_queries_that_lack_a_key_are_counted_once_each():
    lost = [(0, 3, 1), (0, 3, 2), (0, 4, 1), (1, 3, 0)]
    assert lacking(Attention(), lost).totals == {"missing": 4, "wrong_queries": 3}
    held = Attention(missing=[[0, 3, 1]], totals={"missing": 9, "wrong_queries": 5})
    assert lacking(held, lost).totals == {"missing": 12, "wrong_queries": 5}
