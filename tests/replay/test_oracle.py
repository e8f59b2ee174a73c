"""The single pass that a schedule's logits are compared with, on real mlx-lm code."""

import pytest

from mlxdiag.errors import UnjudgedError
from mlxdiag.replay import experiment, verdict
from tests.replay.schedules import HEALTHY, fired, run
from tests.replay.traces import trace


def test_a_key_cap_is_no_difference_when_each_query_is_held_to_the_keys_it_was_left():
    ran = run(
        """{"step": 1, "rows": [{"seq": "a", "offset": 0, "tokens": 8}]}
        {"step": 2, "rows": [{"seq": "a", "offset": 8, "tokens": 8}]}
        {"step": 3, "rows": [{"seq": "a", "offset": 16, "tokens": 8}]}
        {"step": 4, "rows": [{"seq": "a", "offset": 24, "tokens": 1}]}""",
        "llama",
        "scheduler: {max_kv: 12, keep: 2}\n",
    )
    assert [call.k for e in ran.trace.entries for call in e.attention or []] == [8, 16, 20, 13]
    assert ran.report.findings == []
    assert ran.outcome.first_wrong is None


UNDER_A_CAP = {
    "more sinks than the cap holds": (
        "scheduler: {max_kv: 3, keep: 9}\n",
        """{"step": 1, "rows": [{"seq": "a", "offset": 0, "tokens": 4}]}
        {"step": 2, "rows": [{"seq": "a", "offset": 4, "tokens": 4}]}
        {"step": 3, "rows": [{"seq": "a", "offset": 8, "tokens": 1}]}""",
    ),
    "tokens taken back and fed anew, when other keys were gone": (
        "scheduler: {max_kv: 6}\n",
        """{"step": 1, "rows": [{"seq": "a", "offset": 0, "tokens": 4}]}
        {"step": 2, "rows": [{"seq": "a", "offset": 4, "tokens": 4}]}
        {"step": 3, "phase": "trim", "rows": [{"seq": "a", "asked": 2, "done": 2}]}
        {"step": 4, "rows": [{"seq": "a", "offset": 6, "tokens": 1}]}
        {"step": 5, "rows": [{"seq": "a", "offset": 7, "tokens": 1}]}""",
    ),
}


@pytest.mark.parametrize("name", UNDER_A_CAP)
def test_the_single_pass_holds_each_token_to_the_keys_that_were_left_when_it_was_fed(name):
    header, steps = UNDER_A_CAP[name]
    assert fired(run(steps, "llama", header)) == set()


def test_a_fault_that_the_single_pass_shares_is_told_as_the_librarys():
    """mlx-lm's gemma2 builds one causal mask for every layer, so its window is never enforced."""
    ran = run('{"step": 1, "rows": [{"seq": "a", "offset": 0, "tokens": 14}]}', "gemma2_windowed")
    assert ran.outcome.wrong_window == 6
    assert ran.outcome.steps[0].first is None
    assert "it is the library's" in verdict.sentences(ran)[0]


def test_a_family_that_fails_in_its_own_single_pass_is_not_judged_and_says_why(monkeypatch):
    """mlx-lm's gemma3_text looks for the cache of its sixth layer, however few it has."""
    prepared = experiment.prepare(trace(HEALTHY["two sequences by turns on one model"]), source="t.yaml")
    instance = experiment.instance_for(prepared)

    def broken(self, tokens, cache=None):
        raise IndexError("list index out of range")

    monkeypatch.setattr(type(instance.model), "__call__", broken)
    with pytest.raises(UnjudgedError, match=r"fails in its own pass of \d+ tokens: IndexError: list index"):
        experiment.run_policies(prepared, instance, ("strict",))
