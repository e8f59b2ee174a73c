"""What `zoo.yaml` says of each family that its argument class does not tell."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Any

import msgspec
import yaml


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One family."""

    why: str = ""
    """Why the family needs an entry at all."""
    set: dict[str, Any] = {}
    """Fields of the (text) config, over those derived from the argument class."""
    outer: dict[str, Any] = {}
    """Fields of a wrapper's own config."""
    text: str | None = None
    """For a wrapper, the argument class of its text config: `module` or `module:class`."""
    text_type: str | None = None
    """`model_type` inside the text config."""
    like: str | None = None
    """Another entry whose `set` comes first."""
    module: str | None = None
    """The module that runs this model type, where it bears another name."""
    model_type: str = ""
    metal: str = ""
    """Why this family runs on Metal only."""


@cache
def table() -> dict[str, Row]:
    """Every entry of the data file, by family."""
    text = files(__package__).joinpath("zoo.yaml").read_text(encoding="utf-8")
    return msgspec.convert(yaml.load(text, Loader=yaml.CSafeLoader), dict[str, Row])


def row(family: str) -> Row:
    """The entry of a family, or an empty one; its model type is the family's name unless it says other."""
    found = table().get(family, Row())
    given = {**(row(found.like).set if found.like else {}), **found.set}
    return msgspec.structs.replace(found, model_type=found.model_type or family, set=given)
