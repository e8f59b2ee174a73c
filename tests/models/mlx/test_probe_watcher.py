"""Planted faults, 32 tokens and a window of 8: visible positions tell what shapes cannot."""

from __future__ import annotations

from typing import Any

import mlx.core as mx
import numpy as np
import pytest
from mlx_lm.models.base import create_causal_mask
from mlx_lm.models.cache import BatchKVCache

from mlxdiag.models.identity import PADDING
from mlxdiag.models.mlx.attend import Attend, Outcome, newest
from mlxdiag.models.mlx.caches import (
    BufferedRotatingKVCache,
    ClampedRotatingKVCache,
    FrontTrimKVCache,
    capped_mask,
)
from mlxdiag.models.mlx.inject import USE_LIBRARY, caller_masks
from mlxdiag.models.mlx.probe import AttentionEvent, StepEvent
from tests.models.mlx.forwards import W
from tests.models.mlx.visibility import Driver, wrong
from tests.models.seeing import visible


def of_sliding(driver: Driver, step: StepEvent) -> dict[int, list[int]]:
    """Wrong queries of the first sliding layer, by position; every wrong query must be on a sliding layer."""
    found = wrong(driver, step)
    kinds = {spec.index: spec.attention for spec in driver.model.geometry.layers}
    assert {kinds[layer] for layer, _ in found if layer is not None} <= {"sliding"}
    return {position: positions for (layer, position), positions in found.items() if layer == 0}


def on_sliding(change: Any) -> Attend:
    """An intervention on the sliding layers of gemma3 only."""

    def attend(event: AttentionEvent, _q: Any, keys: Any, values: Any, mask: Any) -> Outcome:
        if event.window is None:
            return Outcome(keys, values, mask)
        return Outcome(*change(event, keys, values, mask))

    return attend


class TestPlantedFaults:
    """32 tokens, window 8: what shapes cannot tell is told by the visible positions."""

    def test_no_mask_at_all(self) -> None:
        driver = Driver("gemma3_text", on_sliding(lambda e, k, v, m: (k, v, None, "discarded", "none")))
        step = driver.chunks((24, 8))[1]
        event = step.attention[0]
        assert (event.mask, event.fate, event.fallback) == ((8, 15), "discarded", "none")
        assert of_sliding(driver, step) == {p: list(range(17, 32)) for p in range(24, 32)}

    def test_causal_without_the_window(self) -> None:
        driver = Driver("gemma3_text", on_sliding(lambda e, k, v, m: (k, v, "causal", "discarded", "causal")))
        step = driver.chunks((24, 8))[1]
        assert of_sliding(driver, step) == {p: list(range(17, p + 1)) for p in range(25, 32)}

    def test_windowed_fallback_on_chronological_keys_is_right(self) -> None:
        def windowed(event: AttentionEvent, k: Any, v: Any, m: Any) -> Any:
            band = np.tril(np.ones((event.q, 15), bool), 7) & ~np.tril(np.ones((event.q, 15), bool), -1)
            return k, v, band, "discarded", "windowed"

        driver = Driver("gemma3_text")
        driver.chunks((24,))
        right = Driver(
            "gemma3_text", on_sliding(lambda e, k, v, m: windowed(e, k, v, m) if e.q == 8 else (k, v, m))
        )
        assert wrong(right, right.chunks((24, 8))[1]) == {}

    def test_padded_to_the_tile_then_cropped_to_the_last_keys(self) -> None:
        """A mask for offset 0 and 32 padded tokens, cropped to the newest 15 columns: the shape looks
        right.
        """

        def cropped(event: AttentionEvent, k: Any, v: Any, m: Any) -> Any:
            if event.q != 8:
                return k, v, m
            padded = np.tril(np.ones((8, 32), bool))
            return k, v, padded[:, -15:], "cropped"

        driver = Driver("gemma3_text", on_sliding(cropped))
        step = driver.chunks((24, 8))[1]
        assert step.attention[0].seen is not None
        assert of_sliding(driver, step) == {p: [] for p in range(24, 32)}

    def test_capped_with_keys_sliced_leaves_empty_rows(self) -> None:
        def sliced(event: AttentionEvent, k: Any, v: Any, m: Any) -> Any:
            return newest(k, W), newest(v, W), capped_mask(event.q, 0, W), "rebuilt", "sliced"

        driver = Driver("gemma3_text", on_sliding(sliced))
        step = driver.feed(range(32))
        event = step.attention[0]
        assert event.seen is not None
        assert (event.k, event.k_seen, event.seen.mask.shape) == (32, 32, (1, 32, 8))
        found = of_sliding(driver, step)
        assert [p for p, positions in found.items() if not positions] == list(range(24))
        assert {p: found[p] for p in range(24, 31)} == {p: list(range(24, p + 1)) for p in range(24, 31)}

    def test_the_same_as_an_additive_mask(self) -> None:
        def sliced(event: AttentionEvent, k: Any, v: Any, m: Any) -> Any:
            additive = np.where(np.array(capped_mask(event.q, 0, W)), 0.0, -np.inf)
            return newest(k, W), newest(v, W), additive, "rebuilt", "sliced"

        driver = Driver("gemma3_text", on_sliding(sliced))
        found = of_sliding(driver, driver.feed(range(32)))
        assert [p for p, positions in found.items() if not positions] == list(range(24))

    def test_offset_sized_mask_cropped_to_the_first_keys(self) -> None:
        def cropped(event: AttentionEvent, k: Any, v: Any, m: Any) -> Any:
            if event.q != 8:
                return k, v, m
            return k, v, np.array(create_causal_mask(8, 8, window_size=W))[:, :15], "cropped"

        driver = Driver("gemma3_text", on_sliding(cropped))
        step = driver.chunks((24, 8))[1]
        assert of_sliding(driver, step)[24] == list(range(18, 26))

    @pytest.mark.parametrize(("change", "first"), [(1, 23), (-1, 25)])
    def test_a_window_off_by_one(self, change: int, first: int) -> None:
        driver = Driver("gemma3_text")

        def chooser(h: Any, cache: Any, window_size: int | None, return_array: bool) -> Any:
            if window_size is None:
                return USE_LIBRARY
            offset = min(cache.offset, W - 1)
            return create_causal_mask(h.shape[1], offset, window_size=window_size + change)

        with caller_masks(driver.model.module, chooser):
            step = driver.feed(range(32))
        assert of_sliding(driver, step)[31] == list(range(first, 32))

    def test_a_callers_mask_of_offset_zero_crashes_and_is_told(self) -> None:
        driver = Driver("gemma3_text")
        driver.feed(range(24))
        causal = mx.array(np.tril(np.ones((8, 8), bool)))
        with (
            caller_masks(driver.model.module, lambda *_: causal),
            pytest.raises(ValueError, match=r"\(8,8\) and \(1,\d+,8,15\)"),
        ):
            driver.feed(range(24, 32))
        step = driver.told[-1]
        assert isinstance(step, StepEvent)
        assert [(e.mask, e.k, e.seen) for e in step.attention] == [((8, 8), 15, None)]
        assert step.error_layer == 0

    def test_a_clamped_continuation_narrows_in_silence(self) -> None:
        driver = Driver("gemma3_text", sliding=lambda spec: ClampedRotatingKVCache(spec.window or 0))
        step = driver.chunks((16, 8))[1]
        found = of_sliding(driver, step)
        assert found == {p: list(range(16, p + 1)) for p in range(16, 23)}
        assert step.error is None

    def test_a_key_taken_back_that_stays_visible_counts_as_padding(self) -> None:
        """A draft of 10 and 11 is given up, but the cache keeps its keys in front of the right ones."""
        driver = Driver("llama")
        driver.feed(range(10))
        driver.feed([[10, 11]], tokens=[[201, 202]])
        with driver.probe:
            step = driver.feed([[10, 11]])
        assert visible(step.attention[0], 0, 1) == [(PADDING, -1)] * 2 + [(0, p) for p in range(12)]

    def test_padding_left_in_the_cache(self) -> None:
        driver = Driver("llama")
        driver.feed([np.arange(8)], real=[[True] * 5 + [False] * 3])
        step = driver.feed([[5]])
        assert visible(step.attention[0], 0, 0) == [(PADDING, -1)] * 3 + [(0, p) for p in range(6)]

    def test_a_foreign_sequence(self) -> None:
        driver = Driver("llama")
        driver.feed(range(6), (0,))
        step = driver.feed([[6]], (1,))
        assert visible(step.attention[1], 0, 0) == [*((0, p) for p in range(6)), (1, 6)]

    def test_an_adopted_prefix_is_ones_own(self) -> None:
        driver = Driver("llama")
        driver.feed(range(6), (0,))
        assert driver.probe.identity is not None
        driver.probe.identity.adopt(1, source=0, length=6)
        step = driver.feed([[6]], (1,))
        assert visible(step.attention[1], 0, 0) == [(1, p) for p in range(7)]

    def test_speculation_past_the_slack_is_seen_as_it_is(self) -> None:
        """Keys grow past the window, and a windowed fallback on them is right."""

        def windowed(event: AttentionEvent, _q: Any, k: Any, v: Any, m: Any) -> Outcome:
            if event.window is None or event.q == 1:
                return Outcome(k, v, m)
            keys = k.shape[2]
            distance = np.arange(keys - event.q, keys)[:, None] - np.arange(keys)[None]
            return Outcome(k, v, (distance >= 0) & (distance < W), "discarded", "windowed")

        driver = Driver(
            "gemma3_text", windowed, sliding=lambda spec: BufferedRotatingKVCache(spec.window or 0, 32)
        )
        for step in driver.chunks((8, 2, 2, 2)):
            assert wrong(driver, step) == {}
        assert step.attention[0].mask == (2, 9)
        assert step.attention[0].k == 14

    def test_a_key_cap_keeps_sinks_and_the_newest(self) -> None:
        driver = Driver("llama", full=lambda _: FrontTrimKVCache(sinks=4))
        driver.feed(range(12))
        for c in driver.cache:
            c.cap(8)
        step = driver.feed(range(12, 14))
        assert visible(step.attention[0], 0, 1) == [(0, p) for p in (0, 1, 2, 3, 8, 9, 10, 11, 12, 13)]


class TestBatchesOfGemma2:
    """mlx-lm's gemma2 adds a [B, 1, q, K] mask to [B, key heads, repeats, q, K] scores."""

    def batch(self, padding: list[int]) -> Driver:
        driver = Driver("gemma2")
        assert driver.model.config["num_key_value_heads"] == 2
        driver.cache = [BatchKVCache(padding) for _ in driver.cache]
        return driver

    def test_with_as_many_rows_as_key_heads_each_row_sees_what_any_may(self) -> None:
        driver = self.batch([3, 0])
        positions = np.array([np.arange(-3, 2), np.arange(5)])
        step = driver.feed(positions, (0, 1), positions >= 0)
        event = step.attention[0]
        assert visible(event, 0, 4) == [(PADDING, -1)] * 3 + [(0, 0), (0, 1)]
        assert step.error is None

    def test_with_another_number_of_rows_it_fails(self) -> None:
        driver = self.batch([3, 0, 0])
        positions = np.array([np.arange(-3, 2), np.arange(5), np.arange(5)])
        with pytest.raises(ValueError, match="broadcast"):
            driver.feed(positions, (0, 1, 2), positions >= 0)
        step = driver.told[-1]
        assert isinstance(step, StepEvent)
        assert [(e.layer, e.k, e.mask, e.seen) for e in step.attention] == [(0, 5, (3, 1, 5, 5), None)]
        assert step.error_layer == 0
