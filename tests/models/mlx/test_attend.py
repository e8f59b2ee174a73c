"""The intervention changes what the call uses; the event keeps what it was handed."""

from __future__ import annotations

from typing import Any

import mlx.core as mx
import numpy as np
import pytest

from mlxdiag.models import catalogue
from mlxdiag.models.mlx import tiny
from mlxdiag.models.mlx.attend import Attend, Outcome, as_mask, newest, slice_to_mask
from mlxdiag.models.mlx.caches import SlicedKVCache
from mlxdiag.models.mlx.instance import MlxInstance
from mlxdiag.models.mlx.probe import AttentionEvent, Event, Probe, StepEvent


def build(family: str) -> MlxInstance:
    built = tiny.build(catalogue.config(family), window=8, positions=64)
    assert isinstance(built, MlxInstance), built
    return built


def logits(model: MlxInstance, attend: Attend | None, cache: Any) -> tuple[np.ndarray[Any, Any], StepEvent]:
    told: list[Event] = []
    with Probe(told.append, "visibility", attend) as probe:
        probe.watch(model.model, model.geometry)
        out = np.array(model.forward(np.arange(12)[None] + 3, cache))
    step = told[-1]
    assert isinstance(step, StepEvent)
    return out, step


def unchanged(event: AttentionEvent, _q: Any, keys: Any, values: Any, mask: Any) -> Outcome:
    return Outcome(keys, values, mask, "used")


def unmasked(event: AttentionEvent, _q: Any, keys: Any, values: Any, mask: Any) -> Outcome:
    return Outcome(keys, values, None, "discarded", "none")


def causal_array(event: AttentionEvent, _q: Any, keys: Any, values: Any, mask: Any) -> Outcome:
    return Outcome(keys, values, np.tril(np.ones((event.q, event.k or 0), bool)), "discarded", "causal")


def sliced(event: AttentionEvent, _q: Any, keys: Any, values: Any, mask: Any) -> Outcome:
    band = np.arange(4)[None] <= np.arange(12)[:, None] - 8
    return Outcome(newest(keys, 4), newest(values, 4), band, "rebuilt", "sliced")


@pytest.mark.parametrize("family", ["llama", "gemma2"])
class TestBothKindsOfSoftmax:
    """llama calls the fused attention, gemma2 computes its softmax by hand."""

    def test_what_is_left_as_it_is_changes_nothing(self, family: str) -> None:
        model = build(family)
        plain, _ = logits(model, None, model.new_cache())
        out, step = logits(model, unchanged, model.new_cache())
        assert np.array_equal(plain, out)
        assert {(e.fate, e.fallback) for e in step.attention} == {("used", None)}

    def test_another_mask_of_the_same_meaning_changes_nothing(self, family: str) -> None:
        model = build(family)
        plain, _ = logits(model, None, model.new_cache())
        out, step = logits(model, causal_array, model.new_cache())
        assert np.allclose(plain, out, atol=1e-4)
        assert {(e.fate, e.fallback) for e in step.attention} == {("discarded", "causal")}

    def test_no_mask_is_applied_and_seen_and_the_mask_handed_in_is_kept(self, family: str) -> None:
        model = build(family)
        plain, before = logits(model, None, model.new_cache())
        out, step = logits(model, unmasked, model.new_cache())
        assert not np.allclose(plain, out, atol=1e-2)
        assert [e.mask for e in step.attention] == [e.mask for e in before.attention]
        for event in step.attention:
            assert event.seen is not None
            assert event.seen.mask.all()

    def test_keys_cut_to_their_newest_are_seen_as_such(self, family: str) -> None:
        model = build(family)
        _, step = logits(model, sliced, model.new_cache())
        for event in step.attention:
            assert event.seen is not None
            assert (event.k, event.seen.mask.shape[-1]) == (12, 4)
            assert event.seen.key_pos.tolist() == [[8, 9, 10, 11]]
            assert [int(n) for n in event.seen.mask[0].sum(axis=-1)] == [0] * 8 + [1, 2, 3, 4]


class TestSliceToMask:
    def test_keys_longer_than_the_mask_are_cut_to_it(self) -> None:
        model = build("gemma3_text")
        cache = model.new_cache({"sliding": lambda spec: SlicedKVCache(spec.window or 0, capped=True)})
        told: list[Event] = []
        with Probe(told.append, "visibility", slice_to_mask) as probe:
            probe.watch(model.model)
            for start in (0, 12):
                model.forward(np.arange(start, start + 12)[None] + 3, cache)
        step = told[-1]
        assert isinstance(step, StepEvent)
        event = step.attention[0]
        assert event.seen is not None
        assert (event.mask, event.k, event.fate, event.fallback) == ((12, 8), 24, "used", "sliced")
        assert event.seen.key_pos.tolist() == [list(range(16, 24))]
        assert int((~event.seen.mask.any(axis=-1)).sum()) == 4


def test_masks_take_the_dtype_of_the_queries() -> None:
    additive = as_mask(np.array([[0.0, -np.inf]]), mx.bfloat16)
    assert additive.dtype == mx.bfloat16
    assert additive.tolist() == [[0.0, -np.inf]]
    assert as_mask(np.array([[True]]), mx.bfloat16).dtype == mx.bool_
    assert as_mask("causal", mx.float32) == "causal"
    assert as_mask(None, mx.float32) is None


def test_the_newest_of_quantised_keys() -> None:
    triple = mx.quantize(mx.random.normal((1, 2, 6, 64)), group_size=32, bits=4)
    assert [a.shape[2] for a in newest(triple, 4)] == [4, 4, 4]
    assert mx.array_equal(newest(triple, 4)[0], triple[0][:, :, 2:]).item()
    assert newest(triple[0], 9).shape[2] == 6
