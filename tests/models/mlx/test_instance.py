from __future__ import annotations

from functools import cache

import mlx.core as mx
import pytest
from mlx_lm.models.cache import CacheList, KVCache, RotatingKVCache

from mlxdiag.errors import UsageError
from mlxdiag.models import catalogue
from mlxdiag.models.adapter import LayerSpec
from mlxdiag.models.mlx.instance import MlxInstance
from mlxdiag.models.mlx.tiny import build


@cache
def tiny(name: str) -> MlxInstance:
    built = build(catalogue.config(name), window=8)
    assert isinstance(built, MlxInstance)
    return built


def _wide(layer: LayerSpec) -> RotatingKVCache:
    return RotatingKVCache(max_size=(layer.window or 0) + 100)


def test_caches_are_the_librarys_own() -> None:
    kinds = [type(cache) for cache in tiny("gpt_oss").new_cache()]
    assert kinds == [RotatingKVCache, KVCache, RotatingKVCache, KVCache]


def test_a_family_or_a_single_layer_can_be_given_another_cache() -> None:
    caches = tiny("gpt_oss").new_cache({"sliding": _wide, 2: lambda _: KVCache()})
    assert [type(cache) for cache in caches] == [RotatingKVCache, KVCache, KVCache, KVCache]
    assert caches[0].max_size == 108


def test_only_the_attention_member_of_a_compound_cache_is_replaced() -> None:
    instance = tiny("baichuan_m1")
    caches = instance.new_cache({"sliding": _wide})
    assert all(isinstance(cache, CacheList) for cache in caches)
    assert type(caches[1].caches[0]) is type(instance.new_cache()[1].caches[0])
    assert [cache.caches[-1].max_size for cache in caches[1::2]] == [108, 108]


def test_a_cache_knows_every_layer_that_reads_it() -> None:
    instance = tiny("gemma4_text")
    caches = instance.new_cache()
    assert len(caches) == 6
    assert instance.layer_of(caches, caches[5]) == instance.cache_layers(5) == (5, 7)
    assert instance.layer_of(caches, caches[4]) == (4, 6)
    assert instance.layer_of(caches, caches[0]) == (0,)
    assert instance.layer_of(caches, KVCache()) == ()


def test_a_member_of_a_compound_cache_belongs_to_its_layer() -> None:
    instance = tiny("baichuan_m1")
    caches = instance.new_cache()
    assert instance.layer_of(caches, caches[2].caches[-1]) == (2,)


@pytest.mark.parametrize(
    ("name", "module"),
    [("gemma4", "gemma4_text"), ("gemma3", "gemma3_text"), ("gemma3n", "gemma3n"), ("llama", "llama")],
)
def test_the_module_is_the_one_whose_forward_builds_the_masks(
    name: str, module: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    instance = tiny(name)
    assert instance.module.__name__ == f"mlx_lm.models.{module}"
    called = []
    monkeypatch.setattr(instance.module, "create_attention_mask", lambda *_, **__: called.append(1))
    instance.forward([[1, 2, 3]], instance.new_cache())
    assert called


@pytest.mark.parametrize("ids", [[[0, 4096]], [[-1, 0]]])
def test_ids_outside_the_vocabulary_are_refused(ids: list[list[int]]) -> None:
    with pytest.raises(UsageError, match=r"token ids must be in \[0, 4096\)"):
        tiny("llama").forward(ids, None)


def test_tokens_need_a_batch_axis() -> None:
    with pytest.raises(UsageError, match=r"tokens must be \[B, L\], not \[3\]"):
        tiny("llama").forward([1, 2, 3], None)


def test_logits_are_handed_out_lazily_in_the_librarys_own_type() -> None:
    logits = tiny("llama").forward([[1, 2], [3, 4]], None)
    assert isinstance(logits, mx.array)
    assert logits.shape == (2, 2, 4096)
