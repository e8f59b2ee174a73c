"""Faults planted in masks and caches, each seen as the positions that a query then attends, found by hand.

The window is 8. Twelve tokens are in the cache and five more are fed: a full layer returns 17 keys (positions
0 to 16), a sliding one 12 (positions 5 to 16). Layer 0 slides, layer 1 is full.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from transformers import masking_utils

from mlxdiag.models.events import AttentionEvent
from tests.models.seeing import layer, visible
from tests.models.torch.probing import Driver, wrong


@contextmanager
def sized(**sizes: int) -> Iterator[None]:
    """Masks are made for other lengths and offsets than the cache says."""
    original = masking_utils._preprocess_mask_arguments
    names = ("early", "mask", "packed", "q", "kv", "q_offset", "kv_offset")

    def replaced(*args: Any, **kwargs: Any) -> Any:
        found = dict(zip(names, original(*args, **kwargs), strict=True))
        return tuple({**found, **sizes}.values())

    masking_utils._preprocess_mask_arguments = replaced
    try:
        yield
    finally:
        masking_utils._preprocess_mask_arguments = original


def begun(attention: str, attend: Any = None) -> Driver:
    driver = Driver("gemma3_text", attention, attend)
    driver.feed(range(12))
    return driver


def positions(event: AttentionEvent) -> list[list[int]]:
    """What each query sees."""
    return [[p for _, p in visible(event, 0, i)] for i in range(event.q)]


def discard(event: AttentionEvent, _queries: Any, keys: Any, values: Any, mask: Any) -> Any:
    """A consumer that drops a mask which does not fit."""
    if mask is not None and mask.shape[-1] != event.k_seen:
        return keys, values, None, "discarded", "none"
    return keys, values, mask, "used", None


class TestChunkLocalMask:
    """A mask for five keys at offset 0."""

    def test_sdpa_keeps_the_first_keys_without_a_word(self) -> None:
        driver = begun("sdpa")
        with sized(kv=5, q_offset=0, kv_offset=0):
            step = driver.feed(range(12, 17))
        full, sliding = layer(step, 1), layer(step, 0)
        assert (full.q, full.k, full.mask, full.fallback) == (5, 17, None, "oldest")
        assert positions(full) == [list(range(i + 1)) for i in range(5)]
        assert positions(sliding) == [list(range(5, 6 + i)) for i in range(5)]

    def test_eager_refuses_it_and_the_call_is_told(self) -> None:
        driver = begun("eager")
        with sized(kv=5, q_offset=0, kv_offset=0), pytest.raises(RuntimeError, match=r"tensor a \(12\)"):
            driver.feed(range(12, 17))
        step = driver.step()
        assert step.error is not None
        assert "must match the size of tensor b (5)" in step.error
        assert (step.error_type, step.error_layer) == ("RuntimeError", 0)
        (call,) = step.attention
        assert (call.k, call.mask, call.seen) == (12, (1, 1, 5, 5), None)

    def test_dropped_under_sdpa_a_long_chunk_keeps_the_first_keys(self) -> None:
        driver = begun("sdpa", discard)
        with sized(kv=9, q_offset=0, kv_offset=0):
            step = driver.feed(range(12, 21))
        sliding = layer(step, 0)
        assert (sliding.mask, sliding.fate, sliding.fallback) == ((1, 1, 9, 9), "discarded", "oldest")
        assert positions(sliding) == [list(range(5, 6 + i)) for i in range(9)]

    def test_dropped_under_eager_the_future_is_seen(self) -> None:
        driver = begun("eager", discard)
        with sized(kv=5, q_offset=0, kv_offset=0):
            step = driver.feed(range(12, 17))
        assert layer(step, 1).fallback == "none"
        assert positions(layer(step, 1)) == [list(range(17))] * 5
        assert positions(layer(step, 0)) == [list(range(5, 17))] * 5


class TestCappedMask:
    """A mask for the last eight keys, as if every layer held a window of them: q - W rows see nothing."""

    def test_with_the_keys_cut_to_its_length(self) -> None:
        def cut(event: AttentionEvent, _queries: Any, keys: Any, values: Any, mask: Any) -> Any:
            if mask.shape[-1] == event.k_seen:
                return keys, values, mask, None, None
            return keys[..., -8:, :], values[..., -8:, :], mask, "used", "sliced"

        driver = begun("eager", cut)
        with sized(kv=8, q_offset=12, kv_offset=16):
            step = driver.feed(range(12, 24))
        # Columns stand for positions 16 to 23, so queries 12 to 15 see none of them.
        expected = [list(range(16, p + 1)) for p in range(12, 24)]
        assert positions(layer(step, 1)) == expected
        assert layer(step, 1).fallback == "sliced"


class TestFrontTrim:
    def trimmed(self, attention: str) -> Driver:
        driver = begun(attention)
        for held in driver.cache.layers:
            if not held.is_sliding:
                held.keys, held.values = held.keys[..., 4:, :], held.values[..., 4:, :]
        return driver

    @pytest.mark.parametrize("attention", ["sdpa", "eager"])
    def test_a_mask_of_the_live_length_loses_what_was_trimmed(self, attention: str) -> None:
        step = self.trimmed(attention).feed(range(12, 17))
        full = layer(step, 1)
        assert (full.offset, full.k) == (8, 13)
        assert positions(full) == [list(range(4, p + 1)) for p in range(12, 17)]

    @pytest.mark.parametrize("attention", ["sdpa", "eager"])
    def test_a_mask_of_the_offset_does_not_fit(self, attention: str) -> None:
        driver = self.trimmed(attention)
        with sized(kv=17, q_offset=12, kv_offset=0), pytest.raises(RuntimeError, match="must match"):
            driver.feed(range(12, 17))
        assert all(event.seen is None for event in driver.step().attention)


class TestShortPaddingMask:
    """A 2-D attention mask of the new tokens only is padded with False on the right, over the newest keys."""

    @pytest.mark.parametrize("attention", ["sdpa", "eager"])
    def test_of_a_chunk(self, attention: str) -> None:
        step = begun(attention).feed(range(12, 17), mask=[[1] * 5])
        full, sliding = layer(step, 1), layer(step, 0)
        assert (full.mask, full.key_padding, full.cursor) == ((1, 1, 5, 17), 5, 12)
        assert positions(full) == [list(range(5))] * 5
        # Its columns begin at position 5: not one of them is left.
        assert positions(sliding) == [[]] * 5

    @pytest.mark.parametrize("attention", ["sdpa", "eager"])
    def test_of_a_single_token(self, attention: str) -> None:
        step = begun(attention).feed([12], mask=[[1]])
        assert positions(layer(step, 1)) == [[0]]
        assert positions(layer(step, 0)) == [[]]
        assert layer(step, 1).key_padding == 1

    @pytest.mark.parametrize("attention", ["sdpa", "eager"])
    def test_one_that_is_too_long_does_no_harm(self, attention: str) -> None:
        driver = begun(attention)
        step = driver.feed(range(12, 17), mask=[[1] * 30])
        assert wrong(driver, step) == {}


class TestMasksGivenByTheCaller:
    @pytest.mark.parametrize("attention", ["sdpa", "eager"])
    def test_plain_causal_on_every_layer_sees_beyond_the_window(self, attention: str) -> None:
        driver = begun(attention)
        allowed = torch.ones(5, 12, dtype=torch.bool).tril(7)[None, None]
        given = allowed if attention == "sdpa" else torch.where(allowed, 0.0, torch.finfo(torch.float32).min)
        both = {"full_attention": None, "sliding_attention": given}
        step = driver.feed(range(12, 17), mask=both)
        assert positions(layer(step, 0)) == [list(range(5, p + 1)) for p in range(12, 17)]

    def test_what_a_mask_was_made_as(self) -> None:
        step = begun("eager").feed(range(12, 17))
        assert layer(step, 0).builder == "window"
        assert layer(step, 1).builder == "causal"
        given = torch.zeros(1, 1, 5, 17)
        step = begun("eager").feed(range(12, 17), mask={"full_attention": given, "sliding_attention": None})
        assert layer(step, 1).builder is None
