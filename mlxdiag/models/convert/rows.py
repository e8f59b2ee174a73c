"""What `families.yaml` says of each family: how it is built for a comparison, and how it is published."""

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
    of: str = ""
    """For a variant: the family that it is one of."""
    build: dict[str, Any] = {}
    """Fields of the tiny config over the zoo's: what both libraries can hold."""
    fields: list[str] = []
    """Rules of `fields.py`, in this order."""
    publish: dict[str, Any] = {}
    """Fields of the published config that are the same whatever the sizes."""
    rename: dict[str, str] = {}
    """Fields that bear another name in published configs."""
    drop: list[str] = []
    """Fields that published configs do not have."""
    model_type: str = ""
    """The published model type, where it is another."""
    wrap: bool = False
    """The published config holds the text model's in `text_config`."""
    unwrap: bool = False
    """The saved config does so, and the published one is that of the text model alone."""
    weights: list[str] = []
    """Rules of `layouts.py`, in this order."""
    omit: str = ""
    """A regular expression for the names of weights that belong to no text model."""
    keys: dict[str, str] = {}
    """Regular expressions over the names of weights, and what is put in their place, in this order."""
    apart: str = ""
    """Why the two libraries' models of this name cannot hold the same weights."""

    @property
    def architectures(self) -> tuple[str, ...]:
        """The classes that the published config names, where mlx-lm takes its module by them."""
        return tuple(self.publish.get("architectures", ()))


@cache
def table() -> dict[str, Row]:
    """The data file, read once."""
    text = files(__package__).joinpath("families.yaml").read_text(encoding="utf-8")
    return msgspec.convert(yaml.load(text, Loader=yaml.CSafeLoader), dict[str, Row])


def row(family: str) -> Row:
    """The entry of a family or variant. A variant of the zoo (its name holds a +) takes its family's."""
    known = table()
    return known.get(family) or known.get(family.partition("+")[0]) or Row()
