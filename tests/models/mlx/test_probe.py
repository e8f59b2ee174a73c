"""What the probe leaves alone, what it puts back, and what it tells when a forward fails."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import mlx.core as mx
import mlx_lm.models.base as library_base
import mlx_lm.models.cache as library_caches
import numpy as np
import pytest
from msgspec import UNSET

from mlxdiag.models import catalogue
from mlxdiag.models.mlx import caches as own_caches
from mlxdiag.models.mlx import tiny
from mlxdiag.models.mlx.instance import MlxInstance
from mlxdiag.models.mlx.probe import AttentionEvent, CacheEvent, Event, Probe, StepEvent
from tests.models.mlx.forwards import W, ids, instance, type_of


class TestErrors:
    def test_the_event_of_a_forward_that_fails_names_the_layer_and_the_error_goes_on(self) -> None:
        model = instance("gemma3_text")
        told: list[Event] = []
        failure = RuntimeError("no more")

        def attend(event: AttentionEvent, q: Any, k: Any, v: Any, mask: Any) -> Any:
            if event.layer == 3:
                raise failure
            return k, v, mask, None, None

        with Probe(told.append, attend=attend) as probe:
            probe.watch(model.model)
            with pytest.raises(RuntimeError) as raised:
                model.forward(ids(0, 5), model.new_cache())
        (step,) = told
        assert raised.value is failure
        assert isinstance(step, StepEvent)
        assert (step.error, step.error_type, step.error_layer) == ("no more", "RuntimeError", 3)
        assert [e.layer for e in step.attention] == [0, 1, 2, 3]

    def test_a_cache_that_refuses_an_update_is_told(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def refuse(*_: Any) -> Any:
            raise MemoryError("full")

        monkeypatch.setattr(library_caches.KVCache, "update_and_fetch", refuse)
        told: list[Event] = []
        model = instance("llama")
        with Probe(told.append) as probe:
            probe.watch(model.model)
            with pytest.raises(MemoryError):
                model.forward(ids(0, 5), model.new_cache())
        (step,) = told
        assert isinstance(step, StepEvent)
        assert [(e.layer, e.q, e.k, e.mask) for e in step.attention] == [(0, 5, None, UNSET)]

    def test_the_next_forward_is_whole_again(self) -> None:
        model = instance("llama")
        told: list[Event] = []
        with Probe(told.append) as probe:
            probe.watch(model.model)
            with pytest.raises(AttributeError):
                model.forward(ids(0, 5), [object()] * 2)
            model.forward(ids(0, 5), model.new_cache())
        assert [len(s.attention) for s in told if isinstance(s, StepEvent)] == [0, 2]

    def test_an_unknown_level(self) -> None:
        with pytest.raises(ValueError, match="shapes, digest, visibility"):
            Probe(print, "everything")


def originals(model: Any) -> dict[str, Any]:
    """Every object that the probe might replace, by name."""
    found = {
        "sdpa": mx.fast.scaled_dot_product_attention,
        "rope": mx.fast.rope,
        "quantized": library_base.quantized_scaled_dot_product_attention,
    }
    classes = {type(model), *(type(part) for part in model.layers)}
    for module in (library_caches, own_caches):
        classes |= {c for c in vars(module).values() if isinstance(c, type)}
    for cls in classes:
        found |= {f"{cls.__name__}.{name}": value for name, value in vars(cls).items() if name != "__dict__"}
    return found


def same(before: dict[str, Any], after: dict[str, Any]) -> bool:
    return before.keys() == after.keys() and all(before[name] is after[name] for name in before)


class TestRemoval:
    @pytest.fixture(autouse=True)
    def _untouched(self) -> Iterator[None]:
        self.model = instance("gemma3_text").model
        self.before = originals(self.model)
        yield
        assert same(self.before, originals(self.model))

    def forward(self) -> None:
        instance("gemma3_text").forward(ids(0, 3), instance("gemma3_text").new_cache())

    def test_original_objects_are_back(self) -> None:
        with Probe(print) as probe:
            probe.watch(self.model)
            assert not same(self.before, originals(self.model))

    def test_after_an_exception_in_the_model(self) -> None:
        probe = Probe([].append, attend=lambda *_: 1 / 0)  # type: ignore[arg-type, return-value]
        probe.watch(self.model)
        with probe, pytest.raises(ZeroDivisionError):
            self.forward()

    def test_a_probe_installed_twice_goes_with_its_second_removal(self) -> None:
        told: list[Event] = []
        probe = Probe(told.append)
        with probe:
            probe.watch(self.model)
            with probe:
                self.forward()
            assert not same(self.before, originals(self.model))
            self.forward()
        assert len(told) == 2
        probe.remove()

    @pytest.mark.parametrize("first_out", [0, 1])
    def test_two_probes_leave_in_either_order(self, first_out: int) -> None:
        told: tuple[list[Event], list[Event]] = ([], [])
        probes = [Probe(t.append) for t in told]
        for probe in probes:
            probe.install().watch(self.model)
        self.forward()
        probes[first_out].remove()
        self.forward()
        probes[1 - first_out].remove()
        self.forward()
        assert (len(told[first_out]), len(told[1 - first_out])) == (1, 2)
        depth = len(self.model.layers)
        assert all(len(s.attention) == depth for t in told for s in t if isinstance(s, StepEvent))

    def test_installed_again_it_still_knows_its_models(self) -> None:
        told: list[Event] = []
        probe = Probe(told.append)
        probe.watch(self.model)
        for _ in range(2):
            with probe:
                self.forward()
        assert [s.model for s in told if isinstance(s, StepEvent)] == ["m1", "m1"]

    def test_a_class_can_be_watched_before_any_model_is_loaded(self) -> None:
        told: list[Event] = []
        with Probe(told.append) as probe:
            probe.watch_class(type(self.model))
            self.forward()
        assert [len(s.attention) for s in told if isinstance(s, StepEvent)] == [len(self.model.layers)]


class TestNothingIsEvaluated:
    @pytest.mark.parametrize(
        "family", ["llama", "gemma2", "gemma3_text", "gemma4_text", "baichuan_m1", "recurrent_gemma"]
    )
    def test_a_forward_whose_weights_cannot_be_read_is_told(self, family: str, tmp_path: Path) -> None:
        """Weights load lazily: from a file that is gone, any evaluation would raise."""
        built = tiny.build(catalogue.config(family), window=W, positions=64)
        assert isinstance(built, MlxInstance)
        path = str(tmp_path / "w.safetensors")
        mx.save_safetensors(path, {"w": mx.zeros((512, 512))})
        poison = mx.load(path)["w"]
        os.truncate(path, 64)
        embedding = next(m for name, m in built.model.named_modules() if name.endswith("embed_tokens"))
        embedding.weight = embedding.weight + poison[0, 0]
        told: list[Event] = []
        with Probe(told.append) as probe:
            probe.watch(built.model)
            cache = built.new_cache()
            for offset, n in ((0, 12), (12, 1), (13, 3)):
                logits = built.forward(ids(offset, n), cache)
        assert len(told) == 3
        with pytest.raises(RuntimeError, match="read"):
            mx.eval(logits)

    def test_no_array_of_a_batch_is_read(self, monkeypatch: pytest.MonkeyPatch) -> None:
        read: list[str] = []
        for name in (
            "item",
            "tolist",
            "__array__",
            "__bool__",
            "__int__",
            "__float__",
            "__index__",
            "__iter__",
        ):
            original = getattr(mx.array, name)

            def noted(*args: Any, _name: str = name, _original: Any = original) -> Any:
                read.append(_name)
                return _original(*args)

            monkeypatch.setattr(mx.array, name, noted)
        for name in ("eval", "async_eval"):
            monkeypatch.setattr(mx, name, lambda *_: read.append("eval"))
        model = instance("gemma3_text")
        told: list[Event] = []
        tokens = mx.array(ids(0, 12, rows=2).astype(np.int32))
        with Probe(told.append) as probe:
            probe.watch(model.model)
            cache = [type_of(c)([3, 0]) for c in model.new_cache()]
            for tok in (tokens, tokens[:, :1]):
                model.model(tok, cache=cache)
            for c in cache:
                c.trim(1)
        assert told
        assert read == []


def test_each_thread_has_its_own_forward() -> None:
    model = instance("llama")
    told: list[Event] = []
    with Probe(told.append) as probe:
        probe.watch(model.model)
        threads = [
            threading.Thread(target=lambda n=n: model.forward(ids(0, n), model.new_cache()))
            for n in range(1, 9)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    seen = [(s.q, [e.q for e in s.attention]) for s in told if isinstance(s, StepEvent)]
    assert sorted(seen) == [(n, [n, n]) for n in range(1, 9)]


def test_caches_copied_under_the_probe_are_told_apart() -> None:
    import copy

    model = instance("llama")
    told: list[Event] = []
    with Probe(told.append) as probe:
        probe.watch(model.model)
        cache = model.new_cache()
        model.forward(ids(0, 5), cache)
        branch = copy.deepcopy(cache)
        branch[0].trim(2)
        cache[0].trim(1)
    operations = [e for e in told if isinstance(e, CacheEvent)]
    fork, cut, other = operations
    assert (fork.op, fork.uid) == ("copy", cut.uid)
    assert fork.parents == [other.uid]
    assert [(e.before, e.asked, e.done, e.after, e.index) for e in (cut, other)] == [
        (5, 2, 2, 3, 0),
        (5, 1, 1, 4, 0),
    ]


@pytest.mark.parametrize("level", ["shapes", "visibility"])
def test_forwards_in_a_pause_are_not_told_and_answer_the_same(level: str) -> None:
    told: list[Event] = []
    model = instance("gemma3_text")
    plain = np.array(model.forward(ids(0, 5), model.new_cache()))
    with Probe(told.append, level) as probe:
        probe.watch(model.model, model.geometry)
        with probe.paused():
            unseen = np.array(model.forward(ids(0, 5), model.new_cache()))
        assert not told
        model.forward(ids(0, 5), model.new_cache())
    assert (unseen == plain).all()
    assert [type(event) for event in told] == [StepEvent]
