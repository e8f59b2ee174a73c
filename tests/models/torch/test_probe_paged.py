"""Continuous batching: each request sees its own keys, and the trace says which are whose."""

from __future__ import annotations

from typing import Any

import pytest
from transformers import ContinuousBatchingConfig, GenerationConfig

from mlxdiag.models.attention_entries import to_attention
from mlxdiag.models.events import StepEvent
from mlxdiag.models.identity import PADDING
from tests.models.seeing import layer, visible
from tests.models.torch.probing import Driver, W

PROMPTS = [list(range(5, 15)), [20, 21, 22]]
NEW = 4
GREEDY = GenerationConfig(max_new_tokens=NEW, do_sample=False, eos_token_id=-1, pad_token_id=0)
SMALL = ContinuousBatchingConfig(max_batch_tokens=32, num_blocks=64, page_size=16)
"""By itself the cache takes most of the machine's memory, and filling that takes its time."""


def generate(driver: Driver, prompts: list[list[int]] = PROMPTS) -> dict[str, Any]:
    with driver.probe:
        out = driver.model.model.generate_batch(
            prompts, generation_config=GREEDY, continuous_batching_config=SMALL
        )
    return {name: one.generated_tokens for name, one in out.items()}


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
class TestRequests:
    def test_offsets_keys_and_names(self, attention: str) -> None:
        """Two prompts of 10 and 3 tokens in one forward, then one token each at a time."""
        driver = Driver("gemma3_text", attention, level="shapes")
        out = generate(driver)
        steps = [event for event in driver.told if isinstance(event, StepEvent)]
        names = list(out)
        assert [step.packed for step in steps] == [
            [(names[0], 0, 10), (names[1], 0, 3)],
            *([(names[0], 10 + i, 1), (names[1], 3 + i, 1)] for i in range(NEW - 1)),
        ]
        for step in steps:
            for index, window in ((0, W), (3, None)):
                event = layer(step, index)
                assert step.packed is not None
                expected = [
                    min(offset, (window or offset + 1) - 1) + tokens for _, offset, tokens in step.packed
                ]
                assert (event.kind, event.window, event.ks) == ("paged", window, expected)
                assert event.offset == [offset for _, offset, _ in step.packed]
                assert event.k == sum(expected)
                assert event.mask == (1, 1, event.q, event.k)

    def test_every_query_sees_its_own_request_and_nothing_else(self, attention: str) -> None:
        driver = Driver("gemma3_text", attention)
        generate(driver)
        for step in driver.told:
            assert isinstance(step, StepEvent)
            assert step.packed is not None
            for index, window in ((0, W), (3, 10**6)):
                event = layer(step, index)
                assert event.seen is not None
                for row, (_, offset, tokens) in enumerate(step.packed):
                    for i in range(tokens):
                        p = offset + i
                        own = [(row, at) for at in range(max(0, p - window + 1), p + 1)]
                        assert visible(event, row, i) == own
                    assert event.seen.query_real[row].sum() == tokens

    def test_an_entry_has_the_keys_of_each_row(self, attention: str) -> None:
        driver = Driver("gemma3_text", attention, level="shapes")
        generate(driver)
        sliding, full = to_attention(driver.step().attention, driver.model.geometry)
        assert (sliding.cache, sliding.k, full.k) == ("paged", [W, 6], [13, 6])

    def test_the_tokens_are_the_same_without_the_probe(self, attention: str) -> None:
        driver = Driver("gemma3_text", attention)
        with_probe = generate(driver)
        out = driver.model.model.generate_batch(
            PROMPTS, generation_config=GREEDY, continuous_batching_config=SMALL
        )
        assert [one.generated_tokens for one in out.values()] == list(with_probe.values())


def test_keys_of_another_request_in_the_pages_are_foreign() -> None:
    """Planted: the second request reads the first one's page."""
    from transformers.generation.continuous_batching.cache import PagedAttentionCache

    driver = Driver("gemma3_text", "eager")
    original = PagedAttentionCache.extend_read_and_write_indices

    def crossed(cache: Any, request: str, past: int, new: int, read: Any, write: Any) -> Any:
        if past and request.endswith("1"):
            other = request[:-1] + "0"
            mine: Any = [[] for _ in write]
            original(cache, request, past, new, [[] for _ in read], mine)
            original(cache, other, past, new, read, [[] for _ in write])
            for own, index in zip(mine, write, strict=True):
                index.extend(own)
            return None
        return original(cache, request, past, new, read, write)

    PagedAttentionCache.extend_read_and_write_indices = crossed
    try:
        generate(driver)
    finally:
        PagedAttentionCache.extend_read_and_write_indices = original
    second = [e for e in driver.told if isinstance(e, StepEvent)][1]
    sees = visible(layer(second, 3), 1, 0)
    assert {seq for seq, _ in sees} & {0, PADDING}
    assert (0, 0) in sees
