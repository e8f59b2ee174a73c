"""What a silent config means, over all families: as the libraries' own classes fill it."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import pytest
from huggingface_hub.errors import StrictDataclassClassValidationError
from mlx_lm.models.cache import ArraysCache, ChunkedKVCache, KVCache, RotatingKVCache, make_prompt_cache

from mlxdiag.models.adapter import Geometry, Skipped
from mlxdiag.models.configs.geometry import from_config
from mlxdiag.models.configs.habits import HABITS
from mlxdiag.models.configs.sizes import DEPTHS
from mlxdiag.models.mlx import library as mlx_library
from mlxdiag.models.mlx import zoo as mlx_zoo
from mlxdiag.models.mlx.zoo import fields
from mlxdiag.models.mlx.zoo.config import derive
from mlxdiag.models.mlx.zoo.rows import row
from mlxdiag.models.torch import library
from mlxdiag.models.torch.families import CLASSES
from mlxdiag.models.torch.geometry import of_config

OTHERWISE = {
    "hrm_text": "layers of two stacks run several times, and each run counts",
    "longcat_flash": "each layer attends twice, and counts twice",
    "zamba": "its pattern has no rule",
    "zamba2": "its pattern has no rule",
}
"""Types of transformers whose layers cannot be counted by their config.json alone."""
WINDOWS = (
    "sliding_window",
    "attention_window_size",
    "attention_chunk_size",
    "sliding_window_size",
    "window_size",
)
SWITCHED: tuple[dict[str, Any], ...] = (
    {},
    {"use_sliding_window": False, "max_window_layers": 5},
    {"use_sliding_window": True},
    {"use_sliding_window": True, "max_window_layers": 5},
    {"use_sliding_window": True, "num_hidden_layers": 40},
)
"""What a config may say of a switch, beside the window."""
SPELT = (
    *("layer_types", "layers_block_type", "sliding_window_pattern", "_sliding_window_pattern", "block_types"),
    *(
        "_block_types",
        "full_attn_idxs",
        "sliding_window_layers",
        "hybrid_layer_pattern",
        "full_attention_idx",
    ),
    *("full_attention_interval", "global_attn_every_n_layers", "attn_layer_period", "attn_layer_offset"),
    *("layer_group_size", "mamba_step", "use_sliding_window", "max_window_layers", "no_rope_layers"),
    *("layer_switch", "num_kv_shared_layers", *WINDOWS),
)
"""Fields that say which layer is of which kind, or how far it sees."""


def read(geometry: Geometry) -> list[tuple[int, str, int | None]]:
    return [(layer.index, layer.attention, layer.window) for layer in geometry.layers]


def depth_of(model_type: str) -> tuple[library.Classes, str | None]:
    """The classes of a type, and the field that counts its layers: none for a wrapper."""
    classes = library.family(model_type)
    assert not isinstance(classes, Skipped)
    known = library.defaults(classes)
    return classes, next((name for name in DEPTHS if name in known), None)


def types() -> list[str]:
    library.load()
    every = {*library.causal_types(), *CLASSES} - set(OTHERWISE)
    return sorted(name for name in every if depth_of(name)[1] is not None)


def resolved(classes: library.Classes, said: dict[str, Any]) -> Geometry | None:
    """As the library reads a config; None for a depth that its class refuses."""
    with library.quiet():
        try:
            return of_config(classes.config(**said))
        except StrictDataclassClassValidationError:
            return None


def variants(known: dict[str, Any], depth: str) -> Iterator[dict[str, Any]]:
    """Published-style configs: only the depth, and the window with its switch."""
    window = next((name for name in WINDOWS if name in known), None)
    default = known[depth]
    for layers in (2, 7, 12, *([default] if isinstance(default, int) else [])):
        yield {depth: layers}
        if window is not None:
            yield {depth: layers, window: 64}
    if window is None or "use_sliding_window" not in known:
        return
    for said in SWITCHED:
        yield {depth: 12, **said}
        yield {depth: 12, window: 64, **said}


@pytest.mark.parametrize("model_type", types())
def test_what_is_left_out_is_what_transformers_fills_in(model_type: str) -> None:
    classes, depth = depth_of(model_type)
    assert depth is not None
    asked = list(variants(library.defaults(classes), depth))
    pairs = [(said, meant) for said in asked if (meant := resolved(classes, said)) is not None]
    assert pairs
    for said, meant in pairs:
        assert read(from_config({"model_type": model_type, **said})) == read(meant), said


@pytest.mark.parametrize("model_type", sorted(OTHERWISE))
def test_a_listed_type_is_read_otherwise(model_type: str) -> None:
    classes, depth = depth_of(model_type)
    assert depth is not None
    said = {depth: library.defaults(classes)[depth]}
    meant = resolved(classes, said)
    assert meant is not None
    assert read(from_config({"model_type": model_type, **said})) != read(meant)


def test_a_window_without_its_bound_is_for_the_layers_that_each_family_means() -> None:
    # configuration_qwen3.py: from max_window_layers on, by default 28. configuration_qwen2_moe.py: every
    # other layer below it. modeling_qwen3_moe.py asks for the window alone.
    config = {"num_hidden_layers": 30, "use_sliding_window": True, "sliding_window": 64}
    sliding = {
        kind: [layer.index for layer in from_config({"model_type": kind, **config}).layers if layer.window]
        for kind in ("qwen3", "qwen2_moe", "qwen3_moe")
    }
    assert sliding == {"qwen3": [28, 29], "qwen2_moe": list(range(0, 28, 2)), "qwen3_moe": list(range(30))}


OF_MLX = {
    "afm7": "late layers without caches of their own are counted by its loader",
    "deepseek_v41": "caches of its own",
    "iquestloopcoder": "every layer runs twice, the second time over a window",
    "longcat_flash_ngram": "a state of its own before the layers",
    "nanbeige": "every layer runs twice",
}
"""Modules whose caches are not one for each layer of the config."""


def modules() -> list[str]:
    """Those of mlx-lm that transformers does not define."""
    library.load()
    mlx_library.load()
    theirs = {mlx_library.module_name(name) for name in {*library.causal_types(), *CLASSES}}
    wrapped = {name for name in mlx_zoo.modules() if row(name).text is not None}
    alone = set(mlx_zoo.modules()) - theirs - wrapped - set(OF_MLX)
    return sorted(name for name in alone if not insists(name))


def insists(name: str) -> bool:
    """Whether a module's class refuses a config that names no kinds and no window."""
    arguments = dataclasses.fields(mlx_library.family(name).ModelArgs)
    return any(one.default is dataclasses.MISSING and one.name in SPELT for one in arguments)


@pytest.mark.parametrize("name", modules())
def test_what_is_left_out_is_what_mlx_lm_fills_in_where_it_alone_has_the_family(name: str) -> None:
    module = mlx_library.family(name)
    assert not isinstance(module, Skipped)
    said = {key: value for key, value in derive(module, row(name), fields.DEPTH).items() if key not in SPELT}
    model: Any = module.Model(module.ModelArgs.from_dict(said))
    kinds = {KVCache: "full", RotatingKVCache: "sliding", ArraysCache: "recurrent", ChunkedKVCache: "chunked"}
    caches = make_prompt_cache(model)
    found = [next((kinds[kind] for kind in kinds if isinstance(one, kind)), "full") for one in caches]
    # plamo2 keeps dense caches for layers that slide.
    meant = [layer.attention for layer in from_config(said).layers]
    assert ["full" if name == "plamo2" and kind == "sliding" else kind for kind in meant] == found


def test_every_habit_is_one_of_a_family_that_a_library_has() -> None:
    library.load()
    mlx_library.load()
    known = {*library.causal_types(), *CLASSES, *mlx_zoo.modules(), "bailing_moe_v3"}
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    assert sorted(set(HABITS) - known - set(CONFIG_MAPPING)) == []
