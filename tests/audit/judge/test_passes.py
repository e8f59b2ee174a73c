"""Single passes: equal beginnings once, and the reference of a plan."""

import numpy as np
import pytest

from mlxdiag.audit.judge.judge import prepare
from mlxdiag.audit.judge.passes import Passes, Reference
from mlxdiag.audit.schedules.scenarios import named
from mlxdiag.models.mlx import zoo


class Counting:
    """An instance that counts its forwards."""

    def __init__(self, instance):
        self._instance = instance
        self.forwards = 0

    def __getattr__(self, name):
        return getattr(self._instance, name)

    def forward(self, tokens, cache):
        self.forwards += 1
        return self._instance.forward(tokens, cache)


@pytest.fixture
def counting():
    return Counting(zoo.tiny("llama"))


def test_a_beginning_is_taken_from_the_longer_pass(counting):
    passes = Passes(counting)
    ids = np.arange(5, 25, dtype=np.int32)
    whole, unit = passes.of(ids)
    part, same = passes.of(ids[:7])
    assert counting.forwards == 1
    assert (part == whole[:7]).all()
    assert same == unit
    passes.of(ids[1:])
    assert counting.forwards == 2


def test_one_pass_serves_the_scenarios_of_a_family(counting):
    passes = Passes(counting)
    for name in ("fresh-over-window", "chunks-above-window", "decode-across-window", "save-and-load"):
        setting = prepare(counting, named(name))
        Reference(passes, setting.plan, setting.prompts)
    assert counting.forwards == 1


def test_rejected_tokens_have_passes_of_their_own(counting):
    setting = prepare(counting, named("speculative-before-wrap"))
    reference = Reference(Passes(counting), setting.plan, setting.prompts)
    made = counting.forwards
    for op in setting.plan.forwards:
        (feed,) = op.feeds
        assert reference.logits(feed.seq, feed.codes) is not None
    assert made == 3
