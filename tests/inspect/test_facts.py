"""Where a family's kind, window and cache come from."""

from __future__ import annotations

import pytest

from mlxdiag.inspect.facts import Facts, derive
from mlxdiag.traces.types import Family, Model


def test_without_a_model_the_name_is_all_there_is():
    assert derive(None, "sliding") == Facts(kind="sliding", cache="rotating")
    assert derive(None, "layer-7") == Facts()
    assert derive(None, None) == Facts()


def test_the_models_entry_wins_over_the_name():
    model = Model(layers={"sliding": Family(attention="full")})
    assert derive(model, "sliding") == Facts(kind="full", cache="dense", declared=True)


@pytest.mark.parametrize(
    ("family", "kind", "cache"),
    [
        (Family(window=8), "sliding", "rotating"),
        (Family(), "full", "dense"),
        (Family(attention="chunked"), "chunked", "chunked"),
        (Family(attention="recurrent"), "recurrent", "recurrent"),
        (Family(attention="sliding", cache="dense"), "sliding", "dense"),
    ],
)
def test_what_an_entry_leaves_out_is_filled_in(family, kind, cache):
    facts = derive(Model(layers={"a": family}), "a")
    assert (facts.kind, facts.cache, facts.declared) == (kind, cache, True)


def test_windows_come_from_the_config_where_the_family_gives_none():
    config = {"sliding_window": 512, "attention_chunk_size": 8192}
    layers = {
        "s": Family(attention="sliding"),
        "c": Family(attention="chunked"),
        "f": Family(attention="full"),
    }
    model = Model(config=config, layers=layers)
    assert [derive(model, name).window for name in layers] == [512, 8192, None]
    own = Model(config=config, layers={"s": Family(attention="sliding", window=4)})
    assert derive(own, "s").window == 4


@pytest.mark.parametrize(
    "config", [{"sliding_window": None}, {"sliding_window": 0}, {"sliding_window": "x"}, {}]
)
def test_a_config_without_a_window_gives_none(config):
    assert derive(Model(config=config, layers={"s": Family(attention="sliding")}), "s").window is None


def test_a_call_without_a_family_belongs_to_the_only_one():
    only = Model(layers={"s": Family(attention="sliding", window=4)})
    assert derive(only, None).window == 4
    two = Model(layers={"s": Family(attention="sliding"), "f": Family(attention="full")})
    assert derive(two, None).kind is None
