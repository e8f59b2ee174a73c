"""What a cache layer says of itself without a tensor being read."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest
import torch
from transformers import cache_utils as library
from transformers.models.deepseek_v4.modeling_deepseek_v4 import DeepseekV4HCACache

from mlxdiag.models.torch.layers import FrontTrimLayer
from mlxdiag.models.torch.probe_tags import ATTRIBUTE, kind_of, tag_of, uids_of


@pytest.mark.parametrize(
    ("cls", "kind"),
    [
        (library.DynamicLayer, "dense"),
        (library.DynamicSlidingWindowLayer, "rotating"),
        (library.DynamicIndexedLayer, "dense"),
        (library.StaticLayer, "static"),
        (library.StaticSlidingWindowLayer, "static_sliding"),
        (library.StaticIndexedLayer, "static"),
        (library.Fp8QuantizedLayer, "quantized"),
        (library.QuantoQuantizedLayer, "quantized"),
        (library.LinearAttentionLayer, "recurrent"),
        (library.LinearAttentionAndFullAttentionLayer, "dense"),
        (library.LinearAttentionAndSlidingWindowAttentionLayer, "rotating"),
        (library.LinearAttentionAndStaticFullAttentionLayer, "static"),
        (library.LinearAttentionAndStaticSlidingWindowAttentionLayer, "static_sliding"),
        (DeepseekV4HCACache, "rotating"),
        (FrontTrimLayer, "dense"),
        (library.DummyLayer, "unknown"),
        (dict, "unknown"),
    ],
)
def test_kinds(cls: type, kind: str) -> None:
    assert kind_of(cls) == kind


def counters(layer: Any, *lengths: int) -> Any:
    for n in lengths:
        keys = torch.ones(1, 1, n, 2)
        layer.update(keys, keys)
    return tag_of(layer, 3).read(layer)


def test_counters() -> None:
    """offset, cursor, live_start, live, buffer"""
    assert counters(library.DynamicLayer()) == (0, 0, 0, 0, None)
    assert counters(library.DynamicLayer(), 5, 2) == (7, 7, 0, 7, None)
    assert counters(library.DynamicSlidingWindowLayer(4)) == (0, 0, 0, 0, None)
    assert counters(library.DynamicSlidingWindowLayer(4), 2) == (2, 2, 0, 2, None)
    assert counters(library.DynamicSlidingWindowLayer(4), 5, 2) == (7, 7, 4, 3, None)
    assert counters(library.StaticLayer(9)) == (0, 0, 0, 0, 9)
    assert counters(library.StaticLayer(9), 5, 2) == (7, 7, 0, 7, 9)
    assert counters(library.StaticSlidingWindowLayer(9, 4), 5, 2) == (7, 7, 3, 4, 4)
    assert counters(library.StaticSlidingWindowLayer(3, 4), 2) == (2, 2, 0, 2, 3)
    assert counters(library.Fp8QuantizedLayer(), 5, 2) == (7, 7, 0, 7, None)


def test_a_front_trim_moves_the_start_and_not_the_offset() -> None:
    layer = FrontTrimLayer()
    counters(layer, 10)
    layer.drop_front(4, 1)
    assert tag_of(layer, 0).read(layer) == (10, 10, 4, 6, None)


def test_windows_and_bits() -> None:
    assert tag_of(library.DynamicSlidingWindowLayer(4), 0).alike == ("rotating", 4, None, None, None)
    assert tag_of(library.DynamicSlidingWindowLayer(4), 0).ragged[0] == "batch_rotating"
    assert tag_of(library.Fp8QuantizedLayer(), 0).alike == ("quantized", None, None, None, 8)


def test_a_layer_keeps_its_tag_and_a_copy_gets_its_own() -> None:
    layer, told = library.DynamicLayer(), []
    tag = tag_of(layer, 2)
    assert tag_of(layer, 2) is tag
    twin = copy.deepcopy(layer)
    fresh = tag_of(twin, 2, lambda *args: told.append(args))
    assert fresh.uid != tag.uid
    assert [(one is twin, new is fresh, parent) for one, new, parent in told] == [(True, True, tag.uid)]
    assert tag_of(twin, 2, lambda *args: told.append(args)) is fresh
    assert len(told) == 1


def test_a_pickle_holds_none_in_its_place() -> None:
    layer = library.DynamicLayer()
    tag_of(layer, 2)
    text = pickle.dumps(layer)
    assert b"mlxdiag.models" not in text
    assert pickle.loads(text).__dict__[ATTRIBUTE] is None


def test_layers_that_hold_nothing_have_no_uid() -> None:
    cache = library.Cache(layers=[library.DynamicLayer(), library.DummyLayer(), library.DynamicLayer()])
    uids = uids_of(cache)
    assert len(uids) == 2
    assert uids == uids_of(cache)
    assert uids_of(None) == []
