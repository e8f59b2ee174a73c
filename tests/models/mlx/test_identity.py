"""Visible positions, read under the probe, against what causality and the window require."""

from __future__ import annotations

from functools import cache as once
from typing import Any

import mlx.core as mx
import numpy as np
import pytest
from mlx_lm.models.base import create_causal_mask
from mlx_lm.models.cache import BatchKVCache, BatchRotatingKVCache, KVCache, RotatingKVCache

from mlxdiag.errors import UsageError
from mlxdiag.models import catalogue
from mlxdiag.models.mlx import tiny
from mlxdiag.models.mlx.attend import Attend, Outcome, newest
from mlxdiag.models.mlx.caches import (
    BufferedRotatingKVCache,
    ClampedRotatingKVCache,
    FrontTrimKVCache,
    capped_mask,
)
from mlxdiag.models.mlx.identity import AMBIGUOUS, PADDING, UNKNOWN, Identity, visible_keys
from mlxdiag.models.mlx.inject import USE_LIBRARY, caller_masks
from mlxdiag.models.mlx.instance import MlxInstance
from mlxdiag.models.mlx.probe import AttentionEvent, Event, Feeding, Probe, StepEvent

W = 8
CHUNKED = (5, 7, 12, 1, 1, 1, 3, 9, 1)
"""Past the window in chunks below, at and above it, single tokens that wrap the ring, and chunks after
them.
"""


@once
def instance(family: str) -> MlxInstance:
    built = tiny.build(catalogue.config(family), window=W, positions=64)
    assert isinstance(built, MlxInstance), built
    return built


class Driver:
    """Feeds sequences of distinct tokens under a visibility probe."""

    def __init__(self, family: str, attend: Attend | None = None, **kinds: Any) -> None:
        self.model = instance(family)
        self.told: list[Event] = []
        self.probe = Probe(self.told.append, "visibility", attend)
        self.probe.watch(self.model.model)
        self.cache = self.model.new_cache(kinds)

    def feed(self, positions: Any, seq: Any = (0,), real: Any = None, tokens: Any = None) -> StepEvent:
        """Positions [B, L]; the token of a position is the same in every sequence but shifted by 60."""
        positions = np.atleast_2d(np.array(positions))
        real = np.ones(positions.shape, bool) if real is None else np.array(real)
        if tokens is None:
            tokens = np.where(real, positions + 10 + 60 * np.array(seq)[:, None], 0)
        self.probe.feeding = Feeding(list(seq), positions, real)
        with self.probe:
            mx.eval(self.model.forward(tokens, self.cache))
        event = self.told[-1]
        assert isinstance(event, StepEvent)
        return event

    def chunks(self, schedule: tuple[int, ...], offset: int = 0) -> list[StepEvent]:
        steps = []
        for n in schedule:
            steps.append(self.feed(range(offset, offset + n)))
            offset += n
        return steps

    def required(self, layer: int | None, position: int) -> list[int]:
        spec = self.model.geometry.layer(layer if layer is not None else -1)
        assert spec is not None
        windowed = spec.attention == "sliding" and spec.softmax == "fused"
        return list(range(max(0, position - (spec.window or 0) + 1) if windowed else 0, position + 1))


def visible(event: AttentionEvent, row: int, query: int) -> list[tuple[int, int]]:
    """(sequence, position) of every key that a query sees, in order."""
    assert event.seen is not None
    mask = event.seen.mask[min(row, len(event.seen.mask) - 1), query]
    pairs = zip(event.seen.key_seq[row][mask].tolist(), event.seen.key_pos[row][mask].tolist(), strict=True)
    return sorted(pairs)


def wrong(driver: Driver, step: StepEvent) -> dict[tuple[int | None, int], list[int]]:
    """Queries (layer, position) that see another set of positions than required, with what they see."""
    found = {}
    for event in step.attention:
        assert event.seen is not None
        for row, seq in enumerate(event.seen.query_seq.tolist()):
            for query, position in enumerate(event.seen.query_pos[row].tolist()):
                if event.seen.query_real[row, query]:
                    got = visible(event, row, query)
                    if got != [(seq, p) for p in driver.required(event.layer, position)]:
                        found[(event.layer, position)] = [p for _, p in got]
    return found


class TestHealthy:
    @pytest.mark.parametrize(
        "family",
        ["gemma3_text", "gpt_oss", "gemma4_text", "gemma3n", "gemma2", "cohere2", "baichuan_m1", "step3p5"],
    )
    def test_chunked_and_rolled_over(self, family: str) -> None:
        driver = Driver(family)
        for step in driver.chunks(CHUNKED):
            assert len(step.attention) == driver.model.geometry.depth
            assert wrong(driver, step) == {}

    def test_without_a_cache(self) -> None:
        driver = Driver("gemma4_text")
        driver.cache = None  # type: ignore[assignment]
        assert wrong(driver, driver.feed(range(20))) == {}

    def test_a_single_pass_between_the_chunks_leaves_no_trace(self) -> None:
        driver = Driver("gemma3_text")
        driver.feed(range(10))
        cache, driver.cache = driver.cache, None  # type: ignore[assignment]
        driver.feed(range(20))
        driver.cache = cache
        assert wrong(driver, driver.feed(range(10, 20))) == {}

    def test_positions_follow_from_the_offset_when_nobody_tells(self) -> None:
        driver = Driver("gemma3_text")
        for n in (5, 9):
            with driver.probe:
                driver.model.forward(np.arange(n)[None] + 10 * n, driver.cache)
            step = driver.told[-1]
            assert isinstance(step, StepEvent)
            assert wrong(driver, step) == {}

    def test_left_padded_rows(self) -> None:
        driver = Driver("gemma3_text")
        driver.cache = [batch_of(c, [6, 0]) for c in driver.cache]
        positions = np.array([np.arange(-6, 6), np.arange(12)])
        assert wrong(driver, driver.feed(positions, (0, 1), positions >= 0)) == {}
        for p in range(6):
            assert wrong(driver, driver.feed([[6 + p], [12 + p]], (0, 1))) == {}

    def test_rows_that_are_merged_padded_on_the_right_filtered_and_extracted(self) -> None:
        driver = Driver("gemma4_text")
        rows = []
        for seq, n in ((0, 11), (1, 4)):
            driver.cache = driver.model.new_cache()
            assert wrong(driver, driver.feed(range(n), (seq,))) == {}
            rows.append(driver.cache)
        with driver.probe:
            driver.cache = [type(pair[0]).merge(pair) for pair in zip(*rows, strict=True)]
            for c in driver.cache:
                c.prepare(lengths=[2, 5], right_padding=[3, 0])
        positions = np.array([np.arange(11, 16), np.arange(4, 9)])
        real = np.array([[True, True, False, False, False], [True] * 5])
        assert wrong(driver, driver.feed(positions, (0, 1), real)) == {}
        with driver.probe:
            for c in driver.cache:
                c.finalize()
        assert wrong(driver, driver.feed([[13], [9]], (0, 1))) == {}
        with driver.probe:
            for c in driver.cache:
                c.filter([1])
        assert wrong(driver, driver.feed([[10]], (1,))) == {}
        with driver.probe:
            driver.cache = [c.extract(0) for c in driver.cache]
        assert wrong(driver, driver.feed([range(11, 20)], (1,))) == {}

    def test_keys_that_are_quantised_on_the_way(self) -> None:
        driver = Driver("llama")
        driver.chunks((5, 4))
        with driver.probe:
            driver.cache = [c.to_quantized(group_size=32, bits=4) for c in driver.cache]
        for step in driver.chunks((6, 1, 1), 9):
            assert {event.kv_bits for event in step.attention} == {4}
            assert wrong(driver, step) == {}

    def test_a_rolled_back_draft(self) -> None:
        driver = Driver("llama")
        driver.feed(range(10))
        driver.feed(np.array([[10, 11, 12]]))
        with driver.probe:
            for c in driver.cache:
                c.trim(2)
        assert wrong(driver, driver.chunks((3,), 11)[0]) == {}

    def test_two_models_of_one_conversation_do_not_disturb_each_other(self) -> None:
        driver = Driver("llama")
        other = tiny.build(catalogue.config("llama"), window=W, positions=64, seed=1)
        assert isinstance(other, MlxInstance)
        driver.probe.watch(other.model)
        target, draft = (driver.model, driver.cache), (other, other.new_cache())
        for start in range(0, 12, 4):
            for driver.model, driver.cache in (draft, target):
                assert wrong(driver, driver.feed(range(start, start + 4))) == {}

    def test_half_precision_keys(self) -> None:
        model = tiny.build(catalogue.config("gemma3_text"), window=W, positions=64, dtype="bfloat16")
        assert isinstance(model, MlxInstance)
        driver = Driver("gemma3_text")
        driver.model = model
        driver.probe.watch(model.model)
        driver.cache = model.new_cache()
        for step in driver.chunks(CHUNKED):
            assert wrong(driver, step) == {}


def batch_of(cache: Any, padding: list[int]) -> Any:
    if isinstance(cache, RotatingKVCache):
        return BatchRotatingKVCache(cache.max_size, padding)
    return BatchKVCache(padding)


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


class TestAmbiguity:
    def event(self, length: int) -> AttentionEvent:
        return AttentionEvent(0, 0, "KVCache", "dense", None, None, None, None, 0, 0, 0, 0, 0, length)

    def test_equal_keys_at_two_positions_are_reported(self) -> None:
        memory = Identity()
        keys = mx.array([1.0, 2.0, 1.0]).reshape(1, 1, 3, 1)
        event = self.event(3)
        memory.insert("m1", event, None, keys, None)
        seen = memory.observe("m1", event, keys, keys, "causal", None)
        assert seen is not None
        assert seen.ambiguous == 2
        assert seen.key_seq.tolist() == [[AMBIGUOUS, 0, AMBIGUOUS]]

    def test_equal_keys_of_two_sequences_are_each_rows_own(self) -> None:
        memory = Identity()
        keys = mx.broadcast_to(mx.array([1.0, 2.0]).reshape(1, 1, 2, 1), (2, 1, 2, 1))
        event = self.event(2)
        memory.insert("m1", event, None, keys, None)
        seen = memory.observe("m1", event, keys, keys, None, None)
        assert seen is not None
        assert seen.key_seq.tolist() == [[0, 0], [1, 1]]
        assert seen.ambiguous == 0

    def test_a_key_nobody_appended_is_unknown_and_a_zero_one_is_padding(self) -> None:
        memory = Identity()
        keys = mx.array([3.0, 0.0]).reshape(1, 1, 2, 1)
        seen = memory.observe("m1", self.event(2), keys, keys, None, None)
        assert seen is not None
        assert seen.key_seq.tolist() == [[UNKNOWN, PADDING]]

    def test_layers_have_memories_of_their_own(self) -> None:
        memory = Identity()
        keys = mx.array([1.0, 2.0]).reshape(1, 1, 2, 1)
        memory.insert("m1", self.event(2), None, keys, None)
        other = self.event(2)
        other.layer = 1
        seen = memory.observe("m1", other, keys, keys, None, None)
        assert seen is not None
        assert (seen.key_seq == UNKNOWN).all()

    def test_a_feeding_of_another_shape_is_refused(self) -> None:
        feeding = Feeding([0], np.zeros((1, 4), int), np.ones((1, 4), bool))
        with pytest.raises(UsageError, match="4"):
            Identity().insert("m1", self.event(3), None, mx.ones((1, 1, 3, 1)), feeding)


class TestMasks:
    def test_causal_is_aligned_at_the_lower_right(self) -> None:
        mask = visible_keys("causal", 1, 2, 4)
        assert mask is not None
        assert mask.tolist() == [[[True, True, True, False], [True] * 4]]

    def test_one_axis_is_the_keys(self) -> None:
        mask = visible_keys(mx.array([False, True]), 3, 1, 2)
        assert mask is not None
        assert mask.tolist() == [[[False, True]]]

    @pytest.mark.parametrize("low", [-np.inf, -65504.0, float(np.finfo(np.float32).min)])
    def test_additive_masks_block_with_very_negative_numbers(self, low: float) -> None:
        mask = visible_keys(mx.array([[0.0, low], [-30.0, 5.0]]), 1, 2, 2)
        assert mask is not None
        assert mask.tolist() == [[[True, False], [True, True]]]

    def test_a_batch_axis_with_grouped_heads(self) -> None:
        mask = np.zeros((2, 1, 1, 1, 2), bool)
        mask[1, 0, 0, 0, 1] = True
        seen = visible_keys(mx.array(mask), 2, 1, 2)
        assert seen is not None
        assert seen.tolist() == [[[False, False]], [[False, True]]]

    def test_rows_stay_apart_and_heads_are_merged(self) -> None:
        mask = np.zeros((2, 3, 1, 2), bool)
        mask[1, 2, 0, 1] = True
        seen = visible_keys(mx.array(mask), 2, 1, 2)
        assert seen is not None
        assert seen.tolist() == [[[False, False]], [[False, True]]]

    @pytest.mark.parametrize("shape", [(2, 3), (3, 4), (3, 1, 2, 4)])
    def test_a_mask_that_does_not_fit_gives_nothing(self, shape: tuple[int, ...]) -> None:
        assert visible_keys(mx.ones(shape), 2, 2, 4) is None


def test_a_library_cache_feeds_only_what_it_was_given() -> None:
    """The driver's own positions are what counts: an offset that lies cannot hide behind itself."""
    driver = Driver("llama")
    driver.feed(range(6))
    for c in driver.cache:
        assert isinstance(c, KVCache)
        c.offset -= 2
    step = driver.feed([[6]])
    assert visible(step.attention[0], 0, 0) == [(0, p) for p in (0, 1, 2, 3, 6)]
    assert step.attention[0].rope == 4
