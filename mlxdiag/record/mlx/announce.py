"""The model entry: written when a model runs for the first time."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from mlxdiag.errors import UnreadableError
from mlxdiag.models import special_ids
from mlxdiag.models.adapter import Geometry
from mlxdiag.models.configs.geometry import from_config
from mlxdiag.traces.types import Entry


def announce(
    model: Any, name: str, config: Mapping[str, Any] | None, directory: Path | None
) -> tuple[Entry, Geometry | None]:
    """What is known of a model that the events call `name`, from the config that it was loaded with or else
    from its own arguments. Of a directory only the last part of its name is told.
    """
    family = type(model).__module__.rpartition(".")[2]
    title = directory.name if directory is not None else family
    try:
        geometry = from_config(config if config is not None else arguments(model))
    except UnreadableError as error:
        note = f"the layer kinds are not observed: {error}"
        return Entry(phase="model", model=name, name=title, architecture=family, note=note), None
    geometry = msgspec.structs.replace(geometry, tokens=special_ids.fitting(geometry.tokens, geometry.vocab))
    if directory is not None:
        geometry = msgspec.structs.replace(
            geometry, tokens=special_ids.of_directory(directory, geometry.tokens)
        )
    return msgspec.structs.replace(geometry.model_entry(title), model=name), geometry


def arguments(model: Any) -> dict[str, Any]:
    """A model's arguments, as its config would name them.

    Raises:
        UnreadableError: it keeps none.
    """
    args = getattr(model, "args", None) or getattr(model, "config", None)
    if not dataclasses.is_dataclass(args) or isinstance(args, type):
        raise UnreadableError(f"{type(model).__module__} keeps no arguments")
    found = {field.name: getattr(args, field.name) for field in dataclasses.fields(args)}
    found.setdefault("model_type", type(model).__module__.rpartition(".")[2])
    nested = found.get("text_config")
    if dataclasses.is_dataclass(nested) and not isinstance(nested, type):
        found["text_config"] = {f.name: getattr(nested, f.name) for f in dataclasses.fields(nested)}
    return found
