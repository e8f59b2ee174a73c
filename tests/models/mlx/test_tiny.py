"""Every family of the catalogue: it builds, it runs, and a fault of one key would show in its logits."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import mlx.core as mx
import numpy as np
import pytest
from mlx_lm.models.cache import RotatingKVCache

from mlxdiag.errors import UnreadableError
from mlxdiag.models import catalogue
from mlxdiag.models.adapter import Skipped
from mlxdiag.models.mlx import zoo
from mlxdiag.models.mlx.instance import MlxInstance
from mlxdiag.models.mlx.tiny import build

from ..geometries import TINY, summary

FAMILIES = sorted(set(TINY) - {"gemma3", "gemma4"})
"""Wrappers run the same text models."""
WINDOWED = sorted(set(FAMILIES) - {"gemma2", "llama", "qwen3"})
"""Families whose window the library enforces; for gemma2 it does not."""
WINDOW, LENGTH = 8, 40
VISIBLE = 1e-2
"""Of the logits' standard deviation: what a fault must move them by to be told from rounding."""
NOISE = 1e-3


@cache
def tiny(name: str) -> MlxInstance:
    built = build(catalogue.config(name), window=WINDOW)
    assert isinstance(built, MlxInstance)
    return built


@cache
def prompt() -> Any:
    return np.random.default_rng(7).permutation(4096)[:LENGTH][None]


def single_pass(instance: MlxInstance, tokens: Any) -> Any:
    return instance.forward(tokens, instance.new_cache())


def distance(one: Any, other: Any) -> float:
    return float((mx.abs(one - other).max() / one.std()).item())


@pytest.mark.parametrize("name", sorted(TINY))
def test_the_real_window_and_whole_periods_are_kept(name: str) -> None:
    instance = build(catalogue.config(name))
    assert isinstance(instance, MlxInstance)
    assert summary(instance.geometry.families()) == TINY[name]
    assert len(instance.model.layers) == instance.geometry.depth == len(instance.source_layers)


@pytest.mark.parametrize("name", FAMILIES)
def test_a_family_runs_and_its_logits_are_finite_and_spread(name: str) -> None:
    logits = single_pass(tiny(name), prompt())
    assert logits.shape == (1, LENGTH, 4096)
    assert bool(mx.isfinite(logits).all())
    assert float(logits.std()) > 0.1


@pytest.mark.parametrize("chunks", [(13, 13, 9, *[1] * 5), (5, 1, 1, 33)])
@pytest.mark.parametrize("name", FAMILIES)
def test_a_healthy_schedule_agrees_with_the_single_pass(name: str, chunks: tuple[int, ...]) -> None:
    instance = tiny(name)
    logits = _chunked(instance, instance.new_cache(), chunks)
    assert distance(single_pass(instance, prompt()), logits) < NOISE


@pytest.mark.parametrize("name", WINDOWED)
def test_a_cache_that_forgets_a_key_too_many_does_not_agree(name: str) -> None:
    instance = tiny(name)
    caches = instance.new_cache({"sliding": lambda layer: RotatingKVCache(max_size=(layer.window or 0) - 1)})
    assert distance(single_pass(instance, prompt()), _chunked(instance, caches, (13, 13, 14))) > VISIBLE


def _chunked(instance: MlxInstance, caches: list[Any], chunks: tuple[int, ...]) -> Any:
    starts = np.cumsum((0, *chunks))
    parts = [
        instance.forward(prompt()[:, start : start + length], caches)
        for start, length in zip(starts, chunks, strict=False)
    ]
    return mx.concatenate(parts, axis=1)


def _banded(drop: int | None) -> Callable[..., Any]:
    """The mask of a single pass over a fresh cache, one key dropped for every later query."""

    def create(h: Any, cache: Any = None, window_size: int | None = None, return_array: bool = False) -> Any:
        rows, columns = np.mgrid[0:LENGTH, 0:LENGTH]
        mask = (columns <= rows) & (columns > rows - (window_size or LENGTH))
        if drop is not None:
            mask &= (columns != drop) | (rows == drop)
        return mx.array(mask)

    return create


@pytest.mark.parametrize("name", FAMILIES)
def test_one_key_fewer_shows_in_the_logits(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    instance = tiny(name)
    monkeypatch.setattr(instance.module, "create_attention_mask", _banded(None))
    whole = single_pass(instance, prompt())
    for drop in (0, LENGTH - 2):
        monkeypatch.setattr(instance.module, "create_attention_mask", _banded(drop))
        dropped = single_pass(instance, prompt())
        assert distance(whole[:, drop + 1 :], dropped[:, drop + 1 :]) > VISIBLE
        assert distance(whole[:, : drop + 1], dropped[:, : drop + 1]) == 0.0


@pytest.mark.parametrize("name", FAMILIES)
def test_the_order_of_tokens_shows_in_the_logits(name: str) -> None:
    swapped = prompt().copy()
    swapped[0, [LENGTH - 4, LENGTH - 3]] = swapped[0, [LENGTH - 3, LENGTH - 4]]
    instance = tiny(name)
    assert distance(single_pass(instance, prompt())[:, -1], single_pass(instance, swapped)[:, -1]) > VISIBLE


@pytest.mark.parametrize("name", WINDOWED)
def test_a_window_that_is_off_by_one_shows(name: str) -> None:
    narrower = build(catalogue.config(name), window=WINDOW - 1)
    assert isinstance(narrower, MlxInstance)
    assert distance(single_pass(tiny(name), prompt()), single_pass(narrower, prompt())) > VISIBLE


def test_a_real_window_that_is_off_by_one_shows() -> None:
    tokens = np.random.default_rng(7).permutation(4096)[:192][None]
    right, narrower = (build(catalogue.config("gpt_oss"), window=window) for window in (128, 127))
    assert isinstance(right, MlxInstance)
    assert isinstance(narrower, MlxInstance)
    one, other = single_pass(right, tokens), single_pass(narrower, tokens)
    assert distance(one[:, :127], other[:, :127]) == 0.0
    moved = mx.abs(one - other).max(axis=-1)[0, 128:] / one.std()
    assert float(mx.median(moved)) > VISIBLE


@pytest.mark.parametrize("name", FAMILIES)
def test_attention_is_grouped_and_its_heads_are_32_wide(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    heads = set()
    real = mx.fast.scaled_dot_product_attention

    def watch(q: Any, k: Any, v: Any, **more: Any) -> Any:
        heads.add((q.shape[1], k.shape[1], q.shape[3]))
        return real(q, k, v, **more)

    monkeypatch.setattr(mx.fast, "scaled_dot_product_attention", watch)
    single_pass(tiny(name), prompt())
    # recurrent_gemma has one key head in its code; gemma2 computes attention by hand.
    assert heads == {"gemma2": set(), "recurrent_gemma": {(4, 1, 32)}}.get(name, {(4, 2, 32)})


def test_the_same_seed_gives_the_same_weights_and_another_does_not() -> None:
    config = catalogue.config("step3p5")
    one, same, other = (build(config, window=WINDOW, seed=seed) for seed in (3, 3, 4))
    assert isinstance(one, MlxInstance)
    assert isinstance(same, MlxInstance)
    assert isinstance(other, MlxInstance)
    logits = single_pass(one, prompt())
    assert distance(logits, single_pass(same, prompt())) == 0.0
    assert distance(logits, single_pass(other, prompt())) > 0.1


def test_building_leaves_a_seeded_random_stream_reproducible() -> None:
    drawn = []
    for _ in range(2):
        mx.random.seed(11)
        build(catalogue.config("llama"))
        drawn.append(mx.random.normal((4,)))
    assert bool(mx.array_equal(*drawn))


def test_the_vocabulary_is_larger_than_the_positions_asked_for() -> None:
    instance = build(catalogue.config("llama"), positions=6000)
    assert isinstance(instance, MlxInstance)
    assert instance.vocab > 6000
    assert instance.forward([[instance.vocab - 1]], None).shape == (1, 1, instance.vocab)


def test_another_dtype_reaches_every_weight() -> None:
    instance = build(catalogue.config("gpt_oss"), dtype="bfloat16")
    assert isinstance(instance, MlxInstance)
    from mlx.utils import tree_flatten

    assert {value.dtype for _, value in tree_flatten(instance.model.parameters())} == {mx.bfloat16}


def test_no_id_beyond_the_tiny_vocabulary_is_masked_in_the_logits() -> None:
    """phi3small masks ids of its full vocabulary by an assignment, whose bounds MLX does not check."""
    instance = zoo.tiny("phi3small")
    assert isinstance(instance, MlxInstance)
    assert all(index < instance.vocab for index in instance.model._dummy_tokenizer_ids.tolist())


def test_the_config_of_the_caller_is_not_changed() -> None:
    config = catalogue.config("gemma3")
    build(config)
    assert config == catalogue.config("gemma3")


@pytest.mark.parametrize("name", ["baichuan", "diffusion_gemma", "frobnicator"])
def test_a_family_that_the_library_lacks_is_a_value(name: str) -> None:
    assert isinstance(build({"model_type": name, "num_hidden_layers": 2}), Skipped)


def test_a_family_that_refuses_its_config_is_a_value_with_the_reason() -> None:
    config = {**catalogue.config("exaone4"), "sliding_window_pattern": 4}
    skipped = build(config)
    assert isinstance(skipped, Skipped)
    assert skipped.reason.startswith("a tiny exaone4 cannot be built: TypeError: ")


def test_a_config_that_contradicts_itself_is_an_error() -> None:
    with pytest.raises(UnreadableError, match="num_hidden_layers"):
        build({"model_type": "llama"} | {"num_hidden_layers": 0})
