"""The data file: every entry has a reason, a family, and fields that change something."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from mlxdiag.models.adapter import Skipped
from mlxdiag.models.configs import sizes
from mlxdiag.models.configs.geometry import from_config
from mlxdiag.models.mlx import library
from mlxdiag.models.mlx.zoo import fields, modules
from mlxdiag.models.mlx.zoo.config import ABSENT, derive, text_arguments
from mlxdiag.models.mlx.zoo.rows import Row, row, table

ENTRIES = sorted(table())


@pytest.mark.parametrize("name", ENTRIES)
def test_an_entry_says_why_and_names_a_module_of_the_library(name: str) -> None:
    entry = table()[name]
    assert len(entry.why.split()) >= 2
    assert (entry.module or name) in modules()
    assert entry.module != name


@pytest.mark.parametrize("name", ENTRIES)
def test_every_field_that_is_set_makes_a_difference(name: str) -> None:
    entry = row(name)
    module = library.family(entry.module or name)
    assert not isinstance(module, Skipped)
    config = derive(module, entry, fields.DEPTH)
    known = text_arguments(module, entry)
    dead = [field for field in entry.set if _dead(module, entry, field, config, known)]
    assert dead == []


def test_a_field_that_repeats_the_default_is_dead() -> None:
    module = library.family("olmo2")
    entry = Row(model_type="olmo2", set={"attention_bias": False})
    assert not isinstance(module, Skipped)
    config = derive(module, entry, fields.DEPTH)
    assert _dead(module, entry, "attention_bias", config, text_arguments(module, entry))


def _dead(module: Any, entry: Row, field: str, config: dict[str, Any], known: dict[str, Any]) -> bool:
    """Neither the library nor the geometry would read anything else without it."""
    if field in sizes.DEPTHS:
        return bool(entry.set[field] == fields.ALIKE)
    others = {name: value for name, value in entry.set.items() if name != field}
    try:
        without = derive(module, replace(entry, set=others), fields.DEPTH)
    except ValueError:
        return False
    text = without.get("text_config", without)
    if field in known and text.get(field, known[field]) != entry.set[field]:
        return False
    if field in known and known[field] is ABSENT:
        return False
    return from_config(without).layers == from_config(config).layers
