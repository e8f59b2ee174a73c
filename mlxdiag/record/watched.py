"""The models that have run: what is known of their layers and special ids, told once each."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from mlxdiag.models.adapter import Geometry
from mlxdiag.models.attention_entries import Grouping
from mlxdiag.record.announce import announce
from mlxdiag.traces.types import Entry, Family, Tokens


class Watched(msgspec.Struct, frozen=True):
    """A model that has run."""

    geometry: Geometry | None
    families: dict[str, Family]
    tokens: Tokens | None
    grouping: Grouping


class Models:
    """Stateful, one for each recorder: by the name that events call a model."""

    def __init__(self) -> None:
        self.model_of: Callable[[str], Any] = lambda _name: None
        self.loaded: dict[int, tuple[dict[str, Any], Path]] = {}
        """Config and directory of each loaded model, by `id`."""
        self._watched: dict[str, Watched] = {}

    def get(self, name: str | None) -> Watched | None:
        return self._watched.get(name or "")

    def any(self) -> Watched | None:
        """The first model that has run."""
        return next(iter(self._watched.values()), None)

    def announced(self, name: str) -> tuple[Watched, Entry]:
        """A model that runs for the first time, and the entry that says what it is."""
        model = self.model_of(name)
        entry, geometry = announce(model, name, *self.loaded.get(id(model), (None, None)))
        families = entry.layers or {}
        watched = Watched(geometry, families, entry.tokens, Grouping(geometry, families))
        self._watched[name] = watched
        return watched, entry

    def geometry(self, name: str | None) -> Geometry | None:
        watched = self.get(name)
        return watched.geometry if watched is not None else None

    def is_eos(self, name: str | None, ident: int | None) -> bool:
        """Whether the model's config ends an answer with this id."""
        watched = self.get(name)
        tokens = watched.tokens if watched is not None else None
        return tokens is not None and ident in (tokens.eos or ())

    def forget(self) -> None:
        """Every model is to be told of anew."""
        self._watched.clear()
