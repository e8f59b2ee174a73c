"""The models that have run: what is known of their layers and special ids, told once each."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import msgspec

from mlxdiag.models.adapter import Geometry
from mlxdiag.models.attention_entries import Grouping
from mlxdiag.models.events import CacheEvent
from mlxdiag.record.following import Following
from mlxdiag.record.visible import Visible
from mlxdiag.traces.types import Entry, Family, Tokens


class Watched(msgspec.Struct, frozen=True):
    """A model that has run."""

    geometry: Geometry | None
    families: dict[str, Family]
    tokens: Tokens | None
    grouping: Grouping
    visible: Visible | None
    """At the visibility level: what reads the masks."""


class Models:
    """Stateful, one for each recorder: by the name that events call a model."""

    def __init__(self) -> None:
        self.libraries: list[Following] = []
        """Those whose models are followed."""
        self.numbers = itertools.count(1)
        """What the models of all libraries are named after."""
        self.loaded: dict[int, tuple[dict[str, Any], Path]] = {}
        """Config and directory of each loaded model, by `id`."""
        self.setting: dict[str, str] = {}
        """Where and how the first model runs that has run, for the header."""
        self._watched: dict[str, Watched] = {}

    def get(self, name: str | None) -> Watched | None:
        return self._watched.get(name or "")

    def any(self) -> Watched | None:
        """The first model that has run."""
        return next(iter(self._watched.values()), None)

    def name_of(self, model: Any) -> str | None:
        """What events call a model, whether it has run or not."""
        names = (library.watch(model) for library in self.libraries)
        return next((name for name in names if name is not None), None)

    def is_model(self, name: str, model: Any) -> bool:
        """Whether events call this model `name`."""
        return any(library.model(name) is model for library in self.libraries)

    def announced(self, name: str) -> tuple[Watched, Entry]:
        """A model that runs for the first time, and the entry that says what it is."""
        library, model = self._found(name)
        entry, geometry = library.announce(model, name)
        entry = self._set(entry, library.setting(model))
        families = entry.layers or {}
        grouping = Grouping(geometry, families)
        watched = Watched(geometry, families, entry.tokens, grouping, library.visible)
        self._watched[name] = watched
        return watched, entry

    def _set(self, entry: Entry, setting: dict[str, str]) -> Entry:
        """The header has room for one setting; a model with another one says so itself."""
        if not self._watched:
            self.setting = setting
        if setting == self.setting:
            return entry
        words = ", ".join(f"{name} {value}" for name, value in setting.items())
        note = "; ".join(filter(None, (entry.note, f"unlike the first model, it runs on {words}")))
        return msgspec.structs.replace(entry, note=note)

    def happened(self, event: CacheEvent) -> None:
        """A cache of a model that has run was copied or converted, or cut."""
        watched = self.get(event.model)
        if watched is not None and watched.visible is not None:
            watched.visible.happened(event)

    def _found(self, name: str) -> tuple[Following, Any]:
        for library in self.libraries:
            model = library.model(name)
            if model is not None:
                return library, model
        raise KeyError(f"no library knows model {name}")

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
