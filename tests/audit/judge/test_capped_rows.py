"""Rows under the key cap: the pinned keys are asked for in each, and only once the cap drops keys."""

import mlx.core as mx
import pytest
from mlx_lm.models import cache

from mlxdiag.audit.judge.judge import judge
from mlxdiag.audit.schedules.scenarios import named
from mlxdiag.models.mlx import zoo
from mlxdiag.traces.reader import parse

PINNED = 4


@pytest.fixture(scope="module")
def instance():
    return zoo.tiny("mixtral")


def cell(instance, scenario="key-cap-batch"):
    return judge(instance, named(scenario), noise=1e-6)


def test_a_batch_loses_what_a_row_alone_keeps(instance):
    found = cell(instance)
    assert (found.result, found.codes) == ("fail", ["MD302", "MD305"])
    decodes = [entry for entry in parse(found.trace).entries if entry.phase == "decode"]
    first = next(entry for entry in decodes if entry.rows[0].offset == 8)
    assert found.evidence["step"] == first.step  # the first token that a ring of eight has no room for
    assert cell(instance, "key-cap").result == "pass"


def test_a_batch_that_keeps_them_passes(instance, monkeypatch):
    """The ring of a batch as one sequence alone has it: it turns behind the pinned keys."""

    def update(self, keys, values):
        if self._offset < self.max_size:
            return right(self, keys, values)
        at = PINNED + (self._offset - self.max_size) % (self.max_size - PINNED)
        self.keys[..., at : at + 1, :] = keys
        self.values[..., at : at + 1, :] = values
        self.offset, self._offset = self.offset + 1, self._offset + 1
        self.keys = mx.depends(self.keys, self.offset)
        return self.keys, self.values

    right = cache.BatchRotatingKVCache._update_in_place
    monkeypatch.setattr(cache.BatchRotatingKVCache, "_update_in_place", update)
    found = cell(instance)
    assert found.result == "pass", found.reason
    assert found.judged["visibility"] > 0
    assert found.judged["parity"] == 0
    assert "logits were not compared" in found.reason


def test_a_cap_that_pins_all_it_has_stores_nothing_new(instance, monkeypatch):
    found = cell(instance, "key-cap-below-pins")
    assert found.result == "fail"
    assert "MD305" in found.codes
    assert found.evidence["first"] == PINNED

    def with_room(self, max_size, keep=0):
        right(self, max_size, min(keep, max_size - 1))

    right = cache.RotatingKVCache.__init__
    monkeypatch.setattr(cache.RotatingKVCache, "__init__", with_room)
    mended = cell(instance, "key-cap-below-pins")
    assert mended.result == "pass", mended.reason
