"""A recorded model keeps its kinds of layers when it is replayed, however small it is."""

from __future__ import annotations

from typing import Any

import pytest
from mlx_lm.models.cache import KVCache, RotatingKVCache

from mlxdiag.errors import UnjudgedError
from mlxdiag.models import backends
from mlxdiag.models.adapter import Geometry, Skipped
from mlxdiag.models.configs.geometry import from_config
from mlxdiag.models.mlx import zoo as mlx_zoo
from mlxdiag.models.mlx.instance import MlxInstance
from mlxdiag.models.torch import library
from mlxdiag.models.torch import zoo as torch_zoo
from mlxdiag.models.torch.instance import TorchInstance
from mlxdiag.record.mlx.announce import announce
from mlxdiag.record.torch.announce import announce as torch_announce
from mlxdiag.replay.recorded import recorded_kinds, whole_config
from mlxdiag.traces.types import Entry, Family, Model

S, F = "sliding_attention", "full_attention"


def model_of(entry: Entry) -> Model:
    """A model as its entry in a trace tells of it."""
    return Model(architecture=entry.architecture, config=entry.config, layers=entry.layers)


def kinds(geometry: Geometry) -> list[tuple[int, str]]:
    return [(layer.index, layer.attention) for layer in geometry.layers]


def recorded(model_type: str, **fields: Any) -> tuple[Geometry, Model]:
    """The geometry of a small config, and the model that a recording of it holds."""
    geometry = from_config({"model_type": model_type, "sliding_window": 8, **fields})
    return geometry, model_of(geometry.model_entry("tiny"))


@pytest.mark.parametrize(
    ("model_type", "fields"),
    [
        ("gemma2", {"num_hidden_layers": 2, "layer_types": [F, S]}),
        ("gemma3_text", {"num_hidden_layers": 3, "layer_types": [S, F, S]}),
        ("gemma3_text", {"num_hidden_layers": 4, "sliding_window_pattern": 2}),
        ("gemma4_text", {"num_hidden_layers": 4}),
        ("exaone4", {"num_hidden_layers": 4, "sliding_window_pattern": 2}),
        ("llama", {"num_hidden_layers": 3, "layer_types": [S, F, S]}),
        ("qwen3", {"num_hidden_layers": 4, "use_sliding_window": True, "max_window_layers": 2}),
        ("olmo3", {"num_hidden_layers": 3, "layer_types": [S, F, S]}),
        ("baichuan_m1", {"num_hidden_layers": 4, "sliding_window_layers": [1, 3]}),
    ],
    ids=lambda value: value if isinstance(value, str) else "-".join(value),
)
def test_the_known_checkpoints_layers_are_not_laid_over_a_small_models(
    model_type: str, fields: dict[str, Any]
) -> None:
    geometry, model = recorded(model_type, **fields)
    assert kinds(from_config(whole_config(model))) == kinds(geometry)


@pytest.mark.parametrize("family", mlx_zoo.families())
def test_every_model_of_mlx_lm_keeps_its_kinds(family: str) -> None:
    instance = mlx_zoo.tiny(family)
    if isinstance(instance, Skipped):
        pytest.skip(str(instance))
    assert isinstance(instance, MlxInstance)
    entry, geometry = announce(instance.model, "tiny", instance.config, None)
    if geometry is None:
        pytest.skip("its kinds are not observed")
    assert kinds(from_config(whole_config(model_of(entry)))) == kinds(geometry)


def torch_families() -> tuple[str, ...]:
    # dory's config counts feed-forward blocks as layers, too, and lists the kinds of the others alone.
    library.load()
    return tuple(sorted(set(torch_zoo.families()) - {"dory"}))


@pytest.mark.parametrize("family", torch_families())
def test_every_model_of_transformers_keeps_its_kinds(family: str) -> None:
    instance = torch_zoo.tiny(family)
    assert isinstance(instance, TorchInstance)
    entry, geometry = torch_announce(instance.model, "tiny")
    assert geometry is not None
    assert kinds(from_config(whole_config(model_of(entry)))) == kinds(geometry)


def test_what_mlx_lm_replays_has_the_layers_that_were_recorded() -> None:
    geometry, model = recorded("gemma4_text", num_hidden_layers=4, layer_types=[S, F, S, F])
    built = backends.tiny("mlx", whole_config(model), seed=0, window=8, positions=40, label="tiny")
    assert isinstance(built, MlxInstance)
    assert kinds(built.geometry) == kinds(geometry)
    assert [type(one) for one in built.new_cache()] == [RotatingKVCache, KVCache] * 2


def test_what_transformers_replays_has_the_layers_that_were_recorded() -> None:
    geometry, model = recorded("olmo3", num_hidden_layers=4, layer_types=[S, F, S, F])
    built = backends.tiny("torch", whole_config(model), seed=0, window=8, positions=40, label="tiny")
    assert isinstance(built, TorchInstance)
    assert kinds(built.geometry) == kinds(geometry)
    assert built.model.config.layer_types == [S, F, S, F]


def test_a_trace_that_does_not_say_which_layers_takes_the_known_ones() -> None:
    told = Model(architecture="gemma3_text", layers={"sliding": Family(attention="sliding", window=512)})
    assert recorded_kinds(told.layers or {}) is None
    assert len(from_config(whole_config(told)).layers) == 26


def test_without_any_depth_a_family_that_nobody_knows_is_unjudged() -> None:
    with pytest.raises(UnjudgedError, match="give a checkpoint with --model DIR"):
        whole_config(Model(architecture="frobnicator", config={"sliding_window": 8}))
