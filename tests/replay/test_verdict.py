"""The sentences of a verdict must be true: what was not looked at is not agreed, and each fault has its own name."""

from mlxdiag.replay import experiment
from mlxdiag.replay.verdict import sentences
from tests.replay.traces import trace

STALE = """
    {"step": 1, "rows": [{"seq": "a", "offset": 0, "tokens": 12}]}
    {"step": 2, "rows": [{"seq": "a", "offset": 12, "tokens": 4}], "mask": {"shape": [4, 4], "offset": 0}}"""


def said(steps: str, policy: str = "strict", **options: object) -> str:
    prepared = experiment.prepare(trace(steps), source="t.yaml")
    instance = experiment.instance_for(prepared)
    return " ".join(sentences(experiment.run_policies(prepared, instance, (policy,), **options)[0]))


def test_where_no_mask_was_read_nothing_is_said_of_what_queries_attend():
    text = said(STALE, "discard:windowed", level="shapes")
    assert "queries attend" not in text
    assert "changes nothing: its logits agree with the single pass" in text


def test_where_nothing_was_looked_at_nothing_is_called_harmless():
    text = said(STALE, "discard:windowed", level="shapes", parity=False)
    assert "changes nothing" not in text
    assert "no mask was read and no logits compared" in text


def test_tokens_that_were_taken_back_are_not_called_padding():
    text = said(
        """{"step": 1, "rows": [{"seq": "a", "offset": 0, "tokens": 7}]}
        {"step": 2, "phase": "verify", "rows": [{"seq": "a", "offset": 7, "tokens": 3}]}
        {"step": 3, "phase": "rollback", "rows": [{"seq": "a", "asked": 2}]}
        {"step": 4, "rows": [{"seq": "a", "offset": 8, "tokens": 1}]}"""
    )
    assert "padding" not in text
    assert text.startswith(
        "The answer changes: step 3 takes back 0 of the 2 tokens asked; "
        "from step 4 on tokens that were taken back are still in the cache and attended"
    )


def test_keys_of_another_sequence_are_named_before_anything_else(monkeypatch):
    from mlx_lm.models.cache import BatchKVCache

    own = BatchKVCache.update_and_fetch

    def swapped(self, keys, values):
        keys, values = own(self, keys, values)
        return (keys[::-1], values[::-1]) if keys.shape[2] > 5 else (keys, values)

    monkeypatch.setattr(BatchKVCache, "update_and_fetch", swapped)
    text = said(
        """{"step": 1, "rows": [{"seq": "a", "offset": 0, "tokens": 5}, {"seq": "b", "offset": 0, "tokens": 3, "left_padding": 2}]}
        {"step": 2, "rows": [{"seq": "a", "offset": 5, "tokens": 1}, {"seq": "b", "offset": 3, "tokens": 1}]}"""
    )
    assert text.startswith("Step 2 (decode) lets a sequence see another one's keys: 8 pairs")
