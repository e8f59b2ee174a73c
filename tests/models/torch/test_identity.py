"""Visible positions of healthy forwards against what causality and the window require."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from transformers import DynamicCache, StaticCache

from mlxdiag.errors import UsageError
from mlxdiag.models.identity import PADDING, UNKNOWN
from tests.models.seeing import layer, visible
from tests.models.torch.probing import Driver, W, wrong

CHUNKED = (5, 7, 12, 1, 1, 1, 3, 9, 1)
"""Past the window in chunks below, at and above it, single tokens beyond it, and chunks after them."""

FAMILIES = [
    ("gemma3_text", "sdpa"),
    ("gemma3_text", "eager"),
    ("gpt_oss", "eager"),
    ("mistral", "sdpa"),
    ("mistral", "eager"),
    ("gemma3n_text+shared", "sdpa"),
    ("gemma4_text+shared", "sdpa"),
    ("gemma2", "eager"),
    ("llama4_text", "sdpa"),
    ("cohere2", "sdpa"),
    ("olmo3", "eager"),
    ("recurrent_gemma", "sdpa"),
    ("inkling2_text", "eager"),
]


class TestHealthy:
    @pytest.mark.parametrize(("family", "attention"), FAMILIES)
    def test_chunked_and_past_the_window(self, family: str, attention: str) -> None:
        driver = Driver(family, attention)
        token_mixing = [spec.index for spec in driver.model.geometry.layers if spec.attention != "recurrent"]
        for step in driver.chunks(CHUNKED):
            assert [event.layer for event in step.attention] == token_mixing
            assert wrong(driver, step) == {}

    @pytest.mark.parametrize("attention", ["sdpa", "eager"])
    @pytest.mark.parametrize("room", [6, 24, 64])
    def test_static_caches(self, attention: str, room: int) -> None:
        """Room below the window, beyond it, and more than is ever used."""
        schedule = (4, 1, 1) if room == 6 else (5, 2, 1, 1, 9, 1, 1, 4)
        driver = Driver("gemma3_text", attention)
        driver.cache = StaticCache(config=driver.model.model.config, max_cache_len=room)
        for step in driver.chunks(schedule):
            assert wrong(driver, step) == {}

    def test_a_static_cache_filled_past_its_window_at_once(self) -> None:
        driver = Driver("gemma3_text", "sdpa")
        driver.cache = StaticCache(config=driver.model.model.config, max_cache_len=32)
        for step in driver.chunks((20, 1, 5, 1)):
            assert wrong(driver, step) == {}

    @pytest.mark.parametrize("attention", ["sdpa", "eager"])
    def test_without_a_cache(self, attention: str) -> None:
        driver = Driver("gemma3n_text+shared", attention)
        driver.cache = None
        step = driver.feed(range(20), use_cache=False)
        assert {event.kind for event in step.attention} == {None}
        assert wrong(driver, step) == {}

    def test_a_single_pass_between_the_chunks_leaves_no_trace(self) -> None:
        driver = Driver("gemma3_text")
        driver.feed(range(10))
        cache, driver.cache = driver.cache, None
        driver.feed(range(20), use_cache=False)
        driver.cache = cache
        assert wrong(driver, driver.feed(range(10, 20))) == {}

    @pytest.mark.parametrize("attention", ["sdpa", "eager"])
    def test_left_padded_rows(self, attention: str) -> None:
        driver = Driver("gemma3_text", attention)
        positions = np.array([np.arange(-6, 6), np.arange(12)])
        mask = np.ones((2, 12), int)
        mask[0, :6] = 0
        step = driver.feed(positions, (0, 1), positions >= 0, mask=mask, position_ids=_ids(positions))
        assert wrong(driver, step) == {}
        for p in range(6):
            mask = np.pad(mask, ((0, 0), (0, 1)), constant_values=1)
            fed = np.array([[6 + p], [12 + p]])
            step = driver.feed(fed, (0, 1), mask=mask, position_ids=_ids(fed))
            assert wrong(driver, step) == {}

    def test_a_rollback_hides_what_was_taken_back(self) -> None:
        driver = Driver("olmo3")
        driver.feed(range(5))
        with driver.probe:
            driver.cache.crop(-2)
        step = driver.feed(range(3, 7))
        assert visible(layer(step, 3), 0, 0) == [(0, 0), (0, 1), (0, 2), (0, 3)]
        assert wrong(driver, step) == {}

    def test_two_sequences_in_turn(self) -> None:
        driver = Driver("gemma3_text")
        caches = [driver.cache, DynamicCache(config=driver.model.model.config)]
        for at in (0, 6, 12):
            for seq, cache in enumerate(caches):
                driver.cache = cache
                assert wrong(driver, driver.feed(range(at, at + 6), (seq,))) == {}

    def test_rows_that_are_selected_and_reordered(self) -> None:
        driver = Driver("gemma3_text")
        driver.feed([range(6), range(6), range(6)], (0, 1, 2))
        driver.cache.batch_select_indices(torch.tensor([2, 0]))
        assert wrong(driver, driver.feed([range(6, 12), range(6, 12)], (2, 0))) == {}
        driver.cache.reorder_cache(torch.tensor([1, 0]))
        assert wrong(driver, driver.feed([[12], [12]], (0, 2))) == {}

    def test_positions_follow_from_the_offset_when_nobody_tells(self) -> None:
        driver = Driver("gemma3_text")
        with driver.probe, torch.no_grad():
            for n in (5, 9):
                driver.model.model(input_ids=torch.arange(n)[None] + 10 * n, cache=driver.cache)
        assert layer(driver.step(), 1).offset == 5
        assert wrong(driver, driver.step()) == {}


class TestForeignAndUnknown:
    def test_another_sequences_cache_is_seen_as_such(self) -> None:
        driver = Driver("gemma3_text")
        driver.feed(range(4), (0,))
        step = driver.feed(range(4, 6), (1,))
        assert visible(layer(step, 1), 0, 1) == [(0, 0), (0, 1), (0, 2), (0, 3), (1, 4), (1, 5)]

    def test_keys_from_before_the_probe_are_unknown(self) -> None:
        driver = Driver("gemma3_text")
        with torch.no_grad():
            driver.model.model(input_ids=torch.arange(10, 14)[None], cache=driver.cache)
        seen = layer(driver.feed([4]), 1).seen
        assert seen is not None
        assert seen.key_seq.tolist() == [[UNKNOWN] * 4 + [0]]

    def test_a_layer_that_lost_keys_at_the_front(self) -> None:
        driver = Driver("gemma3_text")
        driver.feed(range(10))
        held = driver.cache.layers[1]
        held.keys, held.values = held.keys[..., 4:, :], held.values[..., 4:, :]
        event = layer(driver.feed([10]), 1)
        assert visible(event, 0, 0) == [(0, p) for p in range(4, 11)]

    def test_padding_that_is_not_masked_is_seen_as_padding(self) -> None:
        driver = Driver("gemma3_text", "sdpa")
        positions = np.array([np.arange(-3, 4)])
        step = driver.feed(positions, (0,), positions >= 0)
        assert visible(layer(step, 1), 0, 3) == [(PADDING, -1)] * 3 + [(0, 0)]

    def test_nan_keys_are_told_apart(self) -> None:
        driver = Driver("gemma3_text", "eager", attend=_poisoned)
        step = driver.feed(range(2 * W))
        assert wrong(driver, step) == {}

    def test_feeding_of_another_shape_is_a_usage_error(self) -> None:
        driver = Driver("gemma3_text")
        with pytest.raises(UsageError, match="feeding describes"):
            driver.feed([range(4)] * 2, (0,))


def _ids(positions: np.ndarray) -> torch.Tensor:  # type: ignore[type-arg]
    """As `generate` counts them: padding has any position, 1 here."""
    return torch.from_numpy(np.where(positions < 0, 1, positions))


def _poisoned(_event: Any, _queries: Any, keys: Any, values: Any, mask: Any) -> Any:
    """Every layer gives NaN from its first on."""
    return keys, torch.full_like(values, torch.nan), mask, None, None
