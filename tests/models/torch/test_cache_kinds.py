"""The caches that a program can choose, and what an instance makes of its kind."""

import msgspec
import pytest

transformers = pytest.importorskip("transformers")

from mlxdiag.models.torch import cache_kinds, zoo  # noqa: E402


@pytest.fixture(scope="module")
def llama():
    return zoo.tiny("llama")


def test_each_kind_is_the_class_of_the_library(llama):
    config = llama.model.config
    assert cache_kinds.fresh("dynamic", config) is None
    static = cache_kinds.fresh("static", config)
    assert type(static) is transformers.StaticCache
    assert static.get_max_length() == cache_kinds.MOST
    assert type(cache_kinds.fresh("quantized", config)) is transformers.QuantizedCache


def test_a_static_layer_with_a_window_holds_no_more_than_that():
    cache = cache_kinds.fresh("static", zoo.tiny("gemma3_text").model.config)
    assert [layer.max_cache_len for layer in cache.layers] == [8, cache_kinds.MOST] * 2


def test_what_the_library_refuses_is_raised_as_it_is():
    with pytest.raises(ValueError, match="only supported for models with only full attention"):
        cache_kinds.fresh("quantized", zoo.tiny("gemma3_text").model.config)


@pytest.mark.parametrize(
    ("kind", "made"),
    [("dynamic", "DynamicCache"), ("static", "StaticCache"), ("quantized", "QuantizedCache")],
)
def test_an_instance_makes_caches_of_its_kind(llama, kind, made):
    (held,) = msgspec.structs.replace(llama, cache_kind=kind).new_cache()
    assert type(held.cache).__name__ == made
