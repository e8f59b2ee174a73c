"""Traces that use the server's prompt cache between requests."""

import pytest

from mlxdiag.errors import UnjudgedError, UnreadableError
from mlxdiag.inspect.findings import codes
from mlxdiag.replay import experiment
from tests.replay.traces import trace

SCHEDULE = """
    {"step": 1, "rows": [{"seq": "a", "offset": 0, "tokens": 7}]}
    {"step": 2, "phase": "save", "rows": [{"seq": "a"}]}
    {"step": 3, "phase": "adopt", "rows": [{"seq": "b", "matched": 4, "entry": 7, "trimmed": 3, "restored": 4}]}
    {"step": 4, "rows": [{"seq": "b", "offset": 4, "tokens": 9}]}
    {"step": 5, "rows": [{"seq": "b", "offset": 13, "tokens": 1}]}"""
HEADER = 'scheduler: {"store": "trie"}\n'


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


def test_an_entry_that_the_store_does_not_give_back_cannot_be_replayed():
    longer = SCHEDULE.replace('"tokens": 7', '"tokens": 12')
    longer = longer.replace('"entry": 7, "trimmed": 3', '"entry": 12, "trimmed": 8')
    with pytest.raises(UnjudgedError, match="gives back 0 tokens"):
        run(longer)


def test_an_unknown_store_is_refused():
    with pytest.raises(UnreadableError, match=r"scheduler\.store"):
        run(SCHEDULE, 'scheduler: {"store": "redis"}\n')
