"""What the probe tells of a forward, and that nothing of it stays behind."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from transformers import DynamicCache, cache_utils, masking_utils, modeling_utils
from transformers.generation.continuous_batching.cache import PagedAttentionCache
from transformers.generation.continuous_batching.input_outputs import ContinuousBatchingIOs

from mlxdiag.errors import UsageError
from mlxdiag.models.attention_entries import to_attention
from mlxdiag.models.events import CacheEvent, StepEvent
from mlxdiag.models.torch.probe import Probe
from tests.models.seeing import layer
from tests.models.torch.probing import Driver, instance

PATCHED = [
    (modeling_utils.AttentionInterface, "get_interface"),
    (modeling_utils.PreTrainedModel, "get_compiled_call"),
    (masking_utils.AttentionMaskInterface, "__getitem__"),
    (cache_utils.Cache, "update"),
    (cache_utils.Cache, "reorder_cache"),
    (cache_utils.DynamicLayer, "crop"),
    (cache_utils.StaticSlidingWindowLayer, "crop"),
    (PagedAttentionCache, "update"),
    (ContinuousBatchingIOs, "prepare_batch_tensors"),
]


def held() -> list[Any]:
    return [vars(owner).get(name) for owner, name in PATCHED]


def run(model: Any, n: int = 5, **more: Any) -> Any:
    with torch.no_grad():
        return model(input_ids=torch.arange(10, 10 + n)[None], **more)


class TestInstalling:
    def test_every_original_object_comes_back(self) -> None:
        model = instance("gemma3_text").model
        before, forward = held(), type(model).forward
        probe = Probe(lambda _: None)
        probe.watch(model)
        assert held() == before
        with probe:
            assert all(now is not then for now, then in zip(held(), before, strict=True))
            assert type(model).forward is not forward
            run(model)
        assert all(now is then for now, then in zip(held(), before, strict=True))
        assert type(model).forward is forward

    def test_functions_are_the_librarys_own_outside_of_a_forward(self) -> None:
        interface = modeling_utils.ALL_ATTENTION_FUNCTIONS
        with Probe(lambda _: None):
            assert interface.get_interface("sdpa", run) is interface["sdpa"]
            assert interface.get_interface("eager", run) is run
        assert set(interface.valid_keys()) == set(interface._global_mapping)

    def test_installing_counts(self) -> None:
        told: list[Any] = []
        probe = Probe(told.append)
        model = instance("gemma3_text").model
        probe.watch(model)
        probe.install().install()
        probe.remove()
        run(model)
        assert len(told) == 1
        probe.remove()
        probe.remove()
        run(model)
        assert len(told) == 1

    def test_two_probes_at_once_see_the_same(self) -> None:
        told: list[Any] = []
        model = instance("gemma3_text").model
        with Probe(told.append) as one, Probe(told.append) as two:
            one.watch(model)
            two.watch(model)
            run(model)
        assert len(told) == 2
        assert to_attention(told[0].attention) == to_attention(told[1].attention)

    def test_a_pause_tells_nothing(self) -> None:
        told: list[Any] = []
        model = instance("gemma3_text").model
        with Probe(told.append) as probe:
            probe.watch(model)
            with probe.paused():
                run(model)
            assert told == []
            run(model)
        assert len(told) == 1

    def test_a_model_whose_forward_was_replaced_on_the_object(self) -> None:
        """As accelerate does when it spreads a model over devices."""
        model = instance("gemma3_text").model
        inner, told = model.forward, []
        model.forward = lambda *args, **kwargs: inner(*args, **kwargs)
        mine = model.forward
        try:
            with Probe(told.append) as probe:
                probe.watch(model)
                run(model)
            assert [len(step.attention) for step in told] == [4]
            assert model.forward is mine
        finally:
            del model.forward

    def test_levels(self) -> None:
        with pytest.raises(UsageError, match="digest"):
            Probe(lambda _: None, "digest")

    def test_models_are_named_in_order(self) -> None:
        probe = Probe(lambda _: None)
        first, second = instance("gemma3_text").model, instance("gemma3_text", "eager").model
        assert (probe.watch(first), probe.watch(second), probe.watch(first)) == ("m1", "m2", "m1")
        assert probe.model("m2") is second


class TestSteps:
    def test_offsets_keys_and_masks_of_a_schedule(self) -> None:
        """Window 8; k = min(c, 7) + q on sliding layers and c + q on full ones."""
        driver = Driver("gemma3_text", "sdpa", level="shapes")
        rows = []
        for step in driver.chunks((5, 7, 12, 1, 3)):
            for index in (0, 3):
                event = layer(step, index)
                rows.append((index, event.kind, event.window, event.offset, event.q, event.k, event.mask))
        sliding = [row[1:] for row in rows if row[0] == 0]
        full = [row[1:] for row in rows if row[0] == 3]
        assert sliding == [
            ("rotating", 8, 0, 5, 5, "causal"),
            ("rotating", 8, 5, 7, 12, (1, 1, 7, 12)),
            ("rotating", 8, 12, 12, 19, (1, 1, 12, 19)),
            ("rotating", 8, 24, 1, 8, (1, 1, 1, 8)),
            ("rotating", 8, 25, 3, 10, (1, 1, 3, 10)),
        ]
        assert full == [
            ("dense", None, 0, 5, 5, "causal"),
            ("dense", None, 5, 7, 12, (1, 1, 7, 12)),
            ("dense", None, 12, 12, 24, (1, 1, 12, 24)),
            ("dense", None, 24, 1, 25, None),
            ("dense", None, 25, 3, 28, (1, 1, 3, 28)),
        ]

    def test_equal_layers_share_an_entry(self) -> None:
        driver = Driver("gemma3_text", "eager", level="shapes")
        driver.feed(range(12))
        entries = to_attention(driver.feed(range(12, 17)).attention, driver.model.geometry)
        assert [(e.family, e.layers, e.k, e.mask, e.builder) for e in entries] == [
            ("sliding", [0, 2], 12, (1, 1, 5, 12), "window"),
            ("full", [1, 3], 17, (1, 1, 5, 17), "causal"),
        ]

    def test_both_levels_say_the_same_of_shapes(self) -> None:
        shown = []
        for level in ("shapes", "visibility"):
            driver = Driver("gemma3n_text+shared", "sdpa", level=level)
            steps = driver.chunks((5, 9, 1))
            shown.append([[(e.layer, e.owner, e.offset, e.k, e.mask) for e in s.attention] for s in steps])
        assert shown[0] == shown[1]

    def test_layers_that_borrow_keys_name_the_owner(self) -> None:
        driver = Driver("gemma3n_text+shared", "sdpa", level="shapes")
        driver.feed(range(12))
        step = driver.feed(range(12, 17))
        shares = {spec.index: spec.shares for spec in driver.model.geometry.layers}
        assert any(owner is not None for owner in shares.values())
        assert {event.layer: event.owner for event in step.attention} == shares
        for event in step.attention:
            if event.owner is not None:
                assert (event.k, event.offset) == (layer(step, event.owner).k, 12)

    def test_layers_that_run_twice_are_told_twice(self) -> None:
        driver = Driver("dory", "sdpa", level="shapes")
        step = driver.feed(range(5))
        assert [(e.layer, e.index, e.part) for e in step.attention] == [
            (0, 0, 0),
            (1, 1, 0),
            (2, 2, 0),
            (1, 4, 1),
            (2, 5, 1),
            (3, 3, 0),
        ]

    def test_sinks_are_noted(self) -> None:
        step = Driver("gpt_oss", "eager", level="shapes").feed(range(5))
        assert all(event.sinks for event in step.attention)

    def test_a_softmax_by_hand(self) -> None:
        """GPT-Neo calls no attention function: its keys are seen, its mask is not."""
        step = Driver("gpt_neo", "eager", level="shapes").feed(range(5))
        assert [(e.layer, e.k, e.manual) for e in step.attention] == [(n, 5, True) for n in range(4)]

    def test_an_attention_call_that_mixes_no_tokens_of_the_sequence(self) -> None:
        """A vision tower's layers are numbered too; they are not causal, and no cache knows their keys."""
        driver = Driver("gemma3_text", "sdpa", level="shapes")
        module = SimpleNamespace(layer_idx=1, is_causal=False)

        def look(*_: Any) -> None:
            attend = modeling_utils.ALL_ATTENTION_FUNCTIONS.get_interface("sdpa", run)
            patches = torch.zeros(1, 1, 9, 4)
            attend(module, patches, patches, patches, None)

        handle = driver.model.model.model.layers[2].register_forward_pre_hook(look)
        try:
            step = driver.feed(range(5))
        finally:
            handle.remove()
        assert [(event.layer, event.k) for event in step.attention] == [(n, 5) for n in range(4)]

    def test_attention_over_residuals_is_no_token_mixing(self) -> None:
        """Inkling 2 attends over the outputs of earlier blocks in place of adding them up."""
        step = Driver("inkling2_text", "eager", level="shapes").feed(range(5))
        assert [event.layer for event in step.attention] == [0, 1, 2, 3]

    def test_a_cache_that_the_model_makes_itself(self) -> None:
        told: list[StepEvent] = []
        model = instance("gemma3_text").model
        with Probe(told.append) as probe:
            probe.watch(model)
            out = run(model, use_cache=True)
            run(model, 1, cache=out.past_key_values if "past_key_values" in out else out.cache)
        assert [layer(step, 1).offset for step in told] == [0, 5]
        assert told[0].uids == told[1].uids
        assert len(told[0].uids) == 4

    def test_an_error_is_told_with_its_layer_and_raised(self) -> None:
        def refuse(event: Any, *rest: Any) -> Any:
            if event.layer == 2:
                raise ValueError("no")
            return (*rest[1:], None, None)

        driver = Driver("gemma3_text", "sdpa", refuse, level="shapes")
        with pytest.raises(ValueError, match="no"):
            driver.feed(range(5))
        step = driver.step()
        assert (step.error, step.error_type, step.error_layer) == ("no", "ValueError", 2)
        assert [event.layer for event in step.attention] == [0, 1, 2]

    def test_generate_is_followed_step_by_step(self) -> None:
        told: list[Any] = []
        model = instance("gemma3_text").model
        with Probe(told.append) as probe:
            probe.watch(model)
            model.generate(torch.arange(5, 15)[None], max_new_tokens=4, do_sample=False, eos_token_id=None)
        assert [(step.batch, step.q, step.offset) for step in told] == [
            (1, 10, 0),
            (1, 1, 10),
            (1, 1, 11),
            (1, 1, 12),
        ]

    def test_threads_do_not_mix(self) -> None:
        told: list[StepEvent] = []
        model = instance("gemma3_text").model
        with Probe(told.append) as probe:
            probe.watch(model)
            threads = [threading.Thread(target=run, args=(model, n)) for n in (3, 6, 9)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        assert sorted((step.q, [e.k for e in step.attention]) for step in told) == [
            (n, [n] * 4) for n in (3, 6, 9)
        ]

    def test_a_fault_of_the_probe_is_not_the_programs(self) -> None:
        faults: list[Exception] = []
        model = instance("gemma3_text").model
        plain = run(model).logits
        probe = Probe(lambda _: None, fault=faults.append)
        probe.before = lambda _step, _cache: 1 / 0  # type: ignore[assignment,return-value]
        with probe:
            probe.watch(model)
            assert torch.equal(run(model).logits, plain)
        assert [type(fault) for fault in faults] == [ZeroDivisionError]

    def test_results_are_the_same_bit_by_bit(self) -> None:
        model = instance("gemma3_text").model
        plain = run(model, 20).logits
        for level in ("shapes", "visibility"):
            with Probe(lambda _: None, level) as probe:
                probe.watch(model)
                assert torch.equal(run(model, 20).logits, plain)


class TestCompiled:
    @pytest.fixture(autouse=True)
    def fresh(self) -> Any:
        torch._dynamo.reset()
        yield
        torch._dynamo.reset()

    def test_a_compiled_model_is_told_of_and_not_seen(self) -> None:
        told: list[StepEvent] = []
        model = instance("gemma3_text").model
        plain = run(model, use_cache=False).logits
        with Probe(told.append) as probe:
            probe.watch(model)
            compiled = torch.compile(model, backend="eager", fullgraph=True)
            assert torch.allclose(run(compiled, use_cache=False).logits, plain, atol=1e-5)
            (step,) = told
            assert (step.q, step.calls) == (5, [])
            assert step.unseen is not None
            run(model)
        assert [len(step.attention) for step in told] == [0, 4]

    def test_the_compiled_call_of_generate(self) -> None:
        from transformers import CompileConfig

        told: list[StepEvent] = []
        model = instance("gemma3_text").model
        with Probe(told.append) as probe:
            probe.watch(model)
            call = model.get_compiled_call(CompileConfig(backend="eager", mode=None, fullgraph=True))
            run(call, use_cache=False)
        assert [(step.q, step.calls, step.unseen is None) for step in told] == [(5, [], False)]

    def test_a_forward_that_is_a_compiled_call_and_no_more(self) -> None:
        told: list[StepEvent] = []
        model = instance("gemma3_text").model
        inner = type(model).forward
        compiled = torch.compile(lambda **given: inner(model, **given), backend="eager", fullgraph=True)
        probe = Probe(told.append)
        model.forward = lambda **given: probe.blind(model, compiled, (), given)
        try:
            with probe:
                probe.watch(model)
                run(model, use_cache=False)
        finally:
            del model.forward
        assert [(step.q, step.calls, step.unseen is None) for step in told] == [(5, [], False)]


class TestCopies:
    def test_a_deep_copy_is_another_cache_with_a_parent(self) -> None:
        import copy

        driver = Driver("gemma3_text", level="shapes")
        driver.feed(range(5))
        first = driver.step().uids
        driver.cache = copy.deepcopy(driver.cache)
        driver.told.clear()
        driver.feed(range(5, 6))
        copies = [event for event in driver.told if isinstance(event, CacheEvent)]
        assert [(event.op, event.parents, event.before) for event in copies] == [
            ("copy", [uid], 5) for uid in first
        ]
        assert driver.step().uids == [event.uid for event in copies]

    def test_a_saved_cache_needs_nothing_of_this_package(self) -> None:
        import pickle

        driver = Driver("gemma3_text", level="shapes")
        driver.feed(range(5))
        assert b"mlxdiag.models" not in pickle.dumps(driver.cache)
        loaded = pickle.loads(pickle.dumps(driver.cache))
        assert isinstance(loaded, DynamicCache)
        uids = driver.step().uids
        driver.cache = loaded
        assert layer(driver.feed([5]), 1).offset == 5
        assert not set(driver.step().uids) & set(uids)
