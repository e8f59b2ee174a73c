"""What `zoo.yaml` says: the sizes that every tiny config gets, and what a family needs besides."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Any

import msgspec
import yaml


class Row(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One family or variant."""

    why: str = ""
    """Why the family needs an entry at all."""
    set: dict[str, Any] = {}
    """Fields of the text config, over the base; what the config class does not declare is passed, too."""
    drop: list[str] = []
    """Fields of the base that are left to the family's own default."""
    like: str | None = None
    """Another entry whose `set` comes first."""
    model_type: str = ""
    attention: str | None = None
    """The implementation that is taken where none is asked for; null: the library's choice."""


class Zoo(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The data file."""

    base: dict[str, Any]
    """Values by field name, for every config class that has the field."""
    caps: dict[str, Any]
    """Values by field name, for every config class that has the field and gives it a value by default."""
    plain: dict[str, str]
    """Families without local attention that are reached all the same, and why."""
    apart: dict[str, str]
    """Families with local attention that are not reached, and why."""
    rows: dict[str, Row]


@cache
def zoo() -> Zoo:
    """The data file, read once."""
    text = files(__package__).joinpath("zoo.yaml").read_text(encoding="utf-8")
    return msgspec.convert(yaml.load(text, Loader=yaml.CSafeLoader), Zoo)


def row(family: str) -> Row:
    """The entry of a family, or an empty one; its model type is the family's name unless it says other."""
    found = zoo().rows.get(family, Row())
    given = {**(row(found.like).set if found.like else {}), **found.set}
    drop = [*(row(found.like).drop if found.like else []), *found.drop]
    return msgspec.structs.replace(found, model_type=found.model_type or family, set=given, drop=drop)
