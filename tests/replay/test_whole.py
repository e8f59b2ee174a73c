"""Which forwards begin again at position 0, and which of them had no cache at all."""

import pytest

from mlxdiag.replay import whole
from mlxdiag.traces.types import Attention, Entry, Row, Scheduler

CACHELESS = Scheduler(cacheless=True)


def entry(*calls, **row):
    return Entry(rows=[Row(seq="a", **row)], attention=list(calls) or None)


def call(**more):
    return Attention(**{"family": "full", "offset": 0, "q": 9, "k": 9, **more})


@pytest.mark.parametrize(
    ("one", "scheduler", "without"),
    [
        (entry(call(), offset=0, tokens=9), CACHELESS, True),
        (entry(offset=0, tokens=9), CACHELESS, True),
        (entry(call(family="mamba", cache="recurrent"), call(), offset=0, tokens=9), CACHELESS, True),
        # The same program with a cache, and a program of which nobody says that it went without one.
        (entry(call(cache="dense"), offset=0, tokens=9), CACHELESS, False),
        (entry(offset=9, tokens=1), CACHELESS, False),
        (entry(call(), offset=0, tokens=9), Scheduler(), False),
    ],
)
def test_without_a_cache_is_what_the_scheduler_says_and_no_call_contradicts(one, scheduler, without):
    assert whole.cacheless(one, one.rows, scheduler) is without


@pytest.mark.parametrize(
    ("one", "begins"),
    [
        (entry(call(cache="dense"), offset=0, tokens=9), True),
        (entry(call(offset=[-3], q=12, k=12), offset=0, tokens=9, left_padding=3), True),
        (entry(call(cache="paged", offset=[0], q=20, k=[9]), offset=0, tokens=9), True),
        # It returns more keys than are new; it counts on; it says nothing; it disagrees with another layer.
        (entry(call(k=12), offset=0, tokens=9), False),
        (entry(call(offset=3), offset=0, tokens=9), False),
        (entry(call(), offset=3, tokens=9), False),
        (entry(offset=0, tokens=9), False),
        (entry(call(k=None), offset=0, tokens=9), False),
        (entry(call(cache="paged", offset=[0], q=20, k=[12]), offset=0, tokens=9), False),
        (entry(call(), call(offset=4, k=13), offset=0, tokens=9), False),
    ],
)
def test_a_sequence_begins_again_where_its_layers_held_nothing(one, begins):
    assert whole.anew(one, 0, one.rows[0]) is begins
