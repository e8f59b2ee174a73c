"""Visible positions of healthy forwards against what causality and the window require."""

from __future__ import annotations

import mlx.core as mx
import numpy as np
import pytest
from mlx_lm.models.cache import KVCache

from mlxdiag.errors import UsageError
from mlxdiag.models import catalogue
from mlxdiag.models.identity import AMBIGUOUS, PADDING, UNKNOWN
from mlxdiag.models.mlx import tiny
from mlxdiag.models.mlx.identity import Identity, visible_keys
from mlxdiag.models.mlx.instance import MlxInstance
from mlxdiag.models.mlx.probe import AttentionEvent, Feeding, StepEvent
from tests.models.mlx.forwards import W
from tests.models.mlx.visibility import Driver, batch_of, wrong
from tests.models.seeing import visible

CHUNKED = (5, 7, 12, 1, 1, 1, 3, 9, 1)
"""Past the window in chunks below, at and above it, single tokens that wrap the ring, and chunks after
them.
"""


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
