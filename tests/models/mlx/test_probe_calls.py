"""What the probe tells of each attention call, on the library's real model code."""

from __future__ import annotations

import numpy as np
import pytest
from mlx_lm.generate import BatchGenerator

from mlxdiag.models.mlx.caches import BufferedRotatingKVCache
from mlxdiag.models.mlx.probe import CacheEvent, Event, Probe, StepEvent
from tests.models.mlx.forwards import W, ids, instance, run, type_of
from tests.models.seeing import layer

SCHEDULE = (5, 7, 12, 1, 1, 1, 3, 9, 1)


class TestWhatItTells:
    def test_a_dense_model_chunked(self) -> None:
        steps = run("llama", (5, 7, 1))
        assert [(s.model, s.batch, s.q) for s in steps] == [("m1", 1, 5), ("m1", 1, 7), ("m1", 1, 1)]
        calls = [layer(s, 1) for s in steps]
        assert [(c.offset, c.rope, c.live, c.k, c.k_seen) for c in calls] == [
            (0, 0, 0, 5, 5),
            (5, 5, 5, 12, 12),
            (12, 12, 12, 13, 13),
        ]
        assert [c.mask for c in calls] == ["causal", "causal", None]
        assert {(c.name, c.kind, c.index, c.window, c.sinks) for c in calls} == {
            ("KVCache", "dense", 1, None, False)
        }
        assert [c.buffer for c in calls] == [0, 256, 256]

    def test_a_ring_returns_window_minus_one_prior_keys(self) -> None:
        calls = [layer(s, 0) for s in run("gemma3_text", SCHEDULE)]
        offsets = np.cumsum((0, *SCHEDULE[:-1])).tolist()
        expected = [
            min(o, W - 1) + n if n > 1 else min(o + 1, W) for o, n in zip(offsets, SCHEDULE, strict=True)
        ]
        assert [c.k for c in calls] == expected
        assert [c.offset for c in calls] == offsets
        assert {(c.kind, c.window) for c in calls} == {("rotating", W)}

    def test_layers_that_borrow_keys_name_their_owner(self) -> None:
        for family in ("gemma3n", "gemma4_text"):
            model = instance(family)
            step = run(family, (5, 12))[1]
            assert len(step.attention) == model.geometry.depth
            for spec in model.geometry.layers:
                event = layer(step, spec.index)
                assert event.owner == spec.shares
                assert event.offset == 5
                assert event.k == event.k_seen == (5 + 12)

    def test_a_softmax_by_hand_gives_the_layers_own_mask(self) -> None:
        steps = run("gemma2", (5, 7, 1))
        assert all(len(s.attention) == instance("gemma2").geometry.depth for s in steps)
        calls = [layer(s, 2) for s in steps]
        assert [c.mask for c in calls] == [(5, 5), (7, 12), None]
        assert [c.k for c in calls] == [5, 12, 13]
        assert all(c.manual for c in calls)

    def test_recurrent_layers_give_no_call(self) -> None:
        model = instance("recurrent_gemma")
        told = {event.layer for event in run("recurrent_gemma", (5,))[0].attention}
        assert told == {s.index for s in model.geometry.layers if s.attention != "recurrent"}
        assert len(told) < model.geometry.depth

    def test_a_member_of_a_compound_cache_has_the_index_of_the_whole(self) -> None:
        assert [event.index for event in run("baichuan_m1", (5,))[0].attention] == [0, 1, 2, 3]

    def test_layers_without_positional_encoding_are_given_no_position(self) -> None:
        model = instance("cohere2")
        step = run("cohere2", (5, 7))[1]
        for spec in model.geometry.layers:
            assert layer(step, spec.index).rope == (5 if spec.attention == "sliding" else None)

    def test_attention_sinks(self) -> None:
        assert all(event.sinks for event in run("gpt_oss", (5,))[0].attention)

    def test_a_forward_without_a_cache(self) -> None:
        told: list[Event] = []
        model = instance("gemma4_text")
        with Probe(told.append) as probe:
            probe.watch(model.model)
            model.forward(ids(0, 12), None)
        (step,) = told
        assert isinstance(step, StepEvent)
        assert {(e.kind, e.offset, e.k) for e in step.attention} == {(None, 0, 12)}
        assert [e.owner for e in step.attention] == [s.shares for s in model.geometry.layers]

    def test_quantised_keys(self) -> None:
        model = instance("llama")
        cache = model.new_cache()
        told: list[Event] = []
        with Probe(told.append) as probe:
            probe.watch(model.model)
            model.forward(ids(0, 5), cache)
            cache = [c.to_quantized(group_size=32, bits=8) for c in cache]
            model.forward(ids(5, 3), cache)
        conversion, step = told[1], told[-1]
        assert isinstance(conversion, CacheEvent)
        assert (conversion.op, conversion.kind, conversion.kv_bits, conversion.after) == (
            "to_quantized",
            "quantized",
            8,
            5,
        )
        assert isinstance(step, StepEvent)
        event = step.attention[0]
        assert (event.kind, event.kv_bits, event.offset, event.k, event.k_seen, event.mask) == (
            "quantized",
            8,
            5,
            8,
            8,
            "causal",
        )

    def test_rows_of_a_batch_have_offsets_of_their_own(self) -> None:
        model = instance("gemma3_text")
        told: list[Event] = []
        with Probe(told.append) as probe:
            probe.watch(model.model)
            cache = [type_of(c)([3, 0]) for c in model.new_cache()]
            model.forward(ids(0, 5, rows=2), cache)
            model.forward(ids(5, 1, rows=2), cache)
        step = told[-1]
        assert isinstance(step, StepEvent)
        assert step.batch == 2
        for event in step.attention:
            assert (event.offset, event.cursor, event.rope, event.left_padding) == ([2, 5], 5, [2, 5], [3, 0])
            assert event.mask == (2, 1, 1, 6)
            assert event.vectors == {"offset": 2, "left_padding": 2}

    def test_our_own_caches(self) -> None:
        model = instance("gemma3_text")
        cache = model.new_cache({"sliding": lambda spec: BufferedRotatingKVCache(spec.window or 0, 32)})
        told: list[Event] = []
        with Probe(told.append) as probe:
            probe.watch(model.model)
            model.forward(ids(0, 8), cache)
            with pytest.raises(ValueError, match=r"\(2,9\) and .*10\)"):
                model.forward(ids(8, 2), cache)
        step = told[-1]
        assert isinstance(step, StepEvent)
        event = step.attention[-1]
        assert (event.kind, event.slack, event.live, event.k, event.mask) == ("buffered", 32, 8, 10, (2, 9))


@pytest.mark.parametrize("family", ["llama", "gemma3_text", "gemma3n"])
def test_ragged_rows_of_the_batch_generator_are_followed(family: str) -> None:
    """Rows join, leave and are merged; each offset is known, and is the position that RoPE was given."""
    model = instance(family)
    told: list[Event] = []
    rng = np.random.default_rng(0)
    with Probe(told.append) as probe:
        probe.watch(model.model)
        generator = BatchGenerator(
            model.model, max_tokens=6, prefill_step_size=16, completion_batch_size=4, prefill_batch_size=2
        )
        generator.insert([rng.integers(5, 250, n).tolist() for n in (3, 40, 17)])
        for turn in range(20):
            generator.next()
            if turn == 4:
                generator.insert([rng.integers(5, 250, n).tolist() for n in (9, 2)], [4, 9])
    steps = [event for event in told if isinstance(event, StepEvent)]
    assert max(step.batch for step in steps) > 1
    for event in (event for step in steps for event in step.attention):
        assert isinstance(event.offset, list)
        assert event.rope == event.offset
        assert event.cursor is not None
        if event.window is None:
            assert event.k == event.cursor + event.q
        elif event.q == 1:
            assert event.k == min(event.cursor + 1, event.window)
        else:
            assert event.k == min(event.cursor, event.window - 1) + event.q
