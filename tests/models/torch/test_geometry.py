from __future__ import annotations

from typing import Any

import msgspec
import pytest
import transformers

from mlxdiag.errors import UnreadableError
from mlxdiag.models import catalogue
from mlxdiag.models.adapter import Skipped
from mlxdiag.models.configs.geometry import from_config
from mlxdiag.models.torch import library, tiny, zoo
from mlxdiag.models.torch.geometry import both_ways, looking_ahead, of_config
from mlxdiag.models.torch.instance import TorchInstance

DIFFERENT = {
    "minimax+window": "its window holds for layers that are listed as full, which the dict cannot tell",
    "dory": "its saved config lists feed-forward blocks as layers, too",
}


def ignored(family: str) -> set[str]:
    # The config class of mimo_v2_flash has no field for what published configs say of sinks. mlx-lm computes
    # gemma2's capped softmax by hand, and transformers in a function that can be watched.
    return {"mimo_v2_flash": {"sinks"}, "gemma2": {"softmax"}}.get(family, set())


def same(instance: TorchInstance, family: str) -> None:
    read = from_config(instance.config)
    assert (read.architecture, read.depth, read.vocab) == (
        instance.geometry.architecture,
        instance.geometry.depth,
        instance.geometry.vocab,
    )
    for one, other in zip(read.layers, instance.geometry.layers, strict=True):
        told, meant = msgspec.structs.asdict(one), msgspec.structs.asdict(other)
        differing = {name for name in told if told[name] != meant[name]}
        assert differing <= ignored(family), (family, one, other)


@pytest.mark.parametrize("family", sorted(set(zoo.families()) - set(DIFFERENT)))
def test_the_config_object_and_its_dict_are_read_alike(family: str) -> None:
    instance = zoo.tiny(family)
    assert isinstance(instance, TorchInstance)
    same(instance, family)


@pytest.mark.parametrize("name", sorted(set(catalogue.CATALOGUE) - {"baichuan_m1"}))
def test_published_configs_cut_small_are_read_alike(name: str) -> None:
    instance = tiny.build(catalogue.config(name))
    assert isinstance(instance, TorchInstance)
    same(instance, name)


@pytest.mark.parametrize("family", sorted(DIFFERENT))
def test_a_listed_difference_is_one(family: str) -> None:
    instance = zoo.tiny(family)
    assert isinstance(instance, TorchInstance)
    with pytest.raises((AssertionError, ValueError)):
        same(instance, family)


def config(model_type: str, **fields: Any) -> Any:
    classes = library.family(model_type)
    assert not isinstance(classes, Skipped)
    with library.quiet():
        return classes.config(**fields)


def test_a_class_that_lists_no_kinds_slides_everywhere_once_it_has_a_window() -> None:
    plain = of_config(config("ministral3", num_hidden_layers=3))
    assert [layer.attention for layer in plain.layers] == ["full"] * 3
    windowed = of_config(config("ministral3", num_hidden_layers=3, sliding_window=5))
    assert [(layer.attention, layer.window) for layer in windowed.layers] == [("sliding", 5)] * 3


def test_published_defaults() -> None:
    # From the documentation of the config classes: five sliding layers, then a full one, window 4096.
    gemma = of_config(config("gemma3_text"))
    assert [layer.attention for layer in gemma.layers[:6]] == ["sliding"] * 5 + ["full"]
    assert {layer.window for layer in gemma.layers} == {4096, None}
    # The last fifteen of 35 layers share: sliding ones layer 18's keys, full ones layer 19's.
    shared = of_config(config("gemma3n_text"))
    assert {layer.shares for layer in shared.layers if layer.shares is not None} == {18, 19}
    assert sum(layer.shares is not None for layer in shared.layers) == 15
    # Blocks of 8192, every fourth layer full and without rotation.
    llama = of_config(config("llama4_text"))
    assert [(one.attention, one.window, one.positions) for one in llama.layers[2:4]] == [
        ("chunked", 8192, True),
        ("full", None, False),
    ]


def test_layers_without_token_mixing_are_left_out_and_counted() -> None:
    # linear_attention, full_attention, moe, mlp.
    instance = zoo.tiny("nemotron_h")
    assert isinstance(instance, TorchInstance)
    assert [(layer.index, layer.attention) for layer in instance.geometry.layers] == [
        (0, "recurrent"),
        (1, "full"),
    ]
    assert instance.geometry.depth == 4


def test_an_unknown_kind_of_layer_is_named() -> None:
    made = config("llama", num_hidden_layers=2)
    made.layer_types = ["full_attention", "telepathy"]
    with pytest.raises(UnreadableError, match="unknown kind of layer, 'telepathy'"):
        of_config(made)


@pytest.mark.parametrize(
    ("field", "value", "told"),
    [
        ("is_causal", False, {"is_causal": False}),
        ("is_causal", True, {}),
        ("use_bidirectional_attention", True, {"use_bidirectional_attention": True}),
        ("use_bidirectional_attention", "all", {"use_bidirectional_attention": "all"}),
        ("use_bidirectional_attention", "vision", {}),
    ],
)
def test_a_config_says_whether_queries_attend_to_later_tokens(
    field: str, value: object, told: dict[str, object]
) -> None:
    config = transformers.LlamaConfig()
    setattr(config, field, value)
    assert looking_ahead(config) == told
    why = both_ways(config)
    assert (why is None) == (not told)
    assert why is None or why.startswith(f"{field} is {value!r}: ")
