"""What batches meet in the library, and that the same schedules pass where it is mended."""

import pytest
from mlx_lm.models import cache

from mlxdiag.audit.judge.judge import judge
from mlxdiag.audit.schedules.scenarios import named
from mlxdiag.models.mlx import zoo


@pytest.fixture(scope="module")
def cell():
    made = {}

    def run(family, scenario):
        instance = made.setdefault(family, zoo.tiny(family))
        return judge(instance, named(scenario), noise=1e-6)

    return run


@pytest.mark.parametrize("family", ["gemma3_text", "gpt_oss"])
def test_a_turned_ring_hides_a_key_from_several_tokens(cell, family, monkeypatch):
    found = cell(family, "left-padding-after-wrap")
    assert found.result == "fail"
    assert {"MD305", "MD402"} <= set(found.codes)
    assert (found.evidence["seq"], found.evidence["step"]) == ("b", 5)

    def make_mask(self, n, *args, **more):
        held, turned = self._idx, self.rotated and n > 1
        self._idx = self.keys.shape[2] if turned else held
        try:
            return right(self, n, *args, **more)
        finally:
            self._idx = held

    right = cache.BatchRotatingKVCache.make_mask
    monkeypatch.setattr(cache.BatchRotatingKVCache, "make_mask", make_mask)
    mended = cell(family, "left-padding-after-wrap")
    assert mended.result == "pass", mended.reason


def test_a_loaded_batch_of_rings_breaks_at_its_next_token(cell, monkeypatch):
    found = cell("gemma3_text", "ragged-save-and-load")
    assert (found.result, found.codes) == ("crash", ["MD906"])
    assert "_lengths" in found.reason

    def from_state(cls, state):
        made = cls.__new__(cls)
        made._lengths, made.state = None, state
        return made

    monkeypatch.setattr(cache.BatchRotatingKVCache, "from_state", classmethod(from_state), raising=False)
    mended = cell("gemma3_text", "ragged-save-and-load")
    assert mended.result == "pass", mended.reason


def test_a_fresh_row_is_not_told_that_it_is_fresh(cell):
    found = cell("recurrent_gemma", "ragged-fresh-row")
    assert (found.result, found.codes) == ("fail", ["MD402"])
    assert (found.evidence["seq"], found.evidence["first"]) == ("b", 0)


@pytest.mark.parametrize("family", ["gemma3_text", "mamba2", "rwkv7"])
def test_fresh_rows_are_right_where_a_state_begins_with_zeros(cell, family):
    found = cell(family, "ragged-fresh-row")
    assert found.result == "pass", found.reason


def test_padding_in_front_of_rows_that_hold_tokens_is_not_judged(cell):
    from mlxdiag.audit.faults.smallest import Judging
    from mlxdiag.traces.reader import parse

    instance = zoo.tiny("gemma3_text")
    good = cell("gemma3_text", "left-padding-after-wrap").trace
    judging = Judging(instance, "left-padding-after-wrap", 0)
    assert judging(parse(good))
    whole = '"rows": [{"seq": "a", "offset": 10, "tokens": 3}, '
    assert whole in good
    shorter = good.replace(whole, whole.replace('"tokens": 3', '"tokens": 2, "left_padding": 1'))
    assert judging(parse(shorter)) is None
