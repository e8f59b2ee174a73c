"""Faults put into the library's own code in memory, to see whether the audit finds them.

An audit that would pass on a broken library is worth nothing. A *plant* breaks one thing: a mask, an offset,
a ring's cursor, a row of a batch, a layer's state. It patches the classes and functions of the installed
library, the way a fault would sit there, below the probe, and everything is back when its context ends.
Those of mlx-lm are in `plants.plants`, those of transformers in `plants.torch.plants`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from importlib import import_module
from typing import Any, Protocol

import msgspec

from mlxdiag.audit.cell import Scenario
from mlxdiag.audit.plants.ground import Ground
from mlxdiag.audit.plants.outputs import Effect
from mlxdiag.errors import UsageError
from mlxdiag.models.adapter import Instance

BEDS = {"mlx": "mlxdiag.audit.plants.bed", "torch": "mlxdiag.audit.plants.torch.bed"}
"""By backend: the module of the `Bed` that its plants are put into."""


class Planted(Protocol):
    """What `judge` is given: it runs a scenario inside `apply`."""

    def apply(self, instance: Instance, scenario: Scenario) -> AbstractContextManager[object]:
        """A context manager. The fault is there while it is open."""
        ...


class Plant(msgspec.Struct, frozen=True, kw_only=True):
    """One fault."""

    name: str
    title: str
    """What is broken, in one line."""
    groups: tuple[str, ...] = ()
    """Groups of scenarios whose path can reach the broken code; empty: any."""
    install: Callable[[Any], None]
    """Puts it into the `Bed` of the library."""
    blind: Mapping[str, str] = {}
    """By oracle: why it cannot see this fault by its nature, where it cannot."""

    def touches(self, scenario: Scenario) -> bool:
        """Whether the scenario's path can reach the broken code."""
        return not self.groups or scenario.group in self.groups

    @contextmanager
    def apply(self, instance: Instance, scenario: Scenario) -> Iterator[Effect]:
        """Break the library until the context ends; yields what the fault does meanwhile."""
        effect = Effect()
        bed: Ground = import_module(BEDS[instance.backend.name]).Bed(instance, effect)
        try:
            with bed.recorded():
                self.install(bed)
                yield effect
        finally:
            bed.patches.undo()


def _nothing(_bed: Ground) -> None:
    """Leaves the library as it is."""


NOTHING = Plant(name="nothing", title="the library as it is, its outputs recorded", install=_nothing)
"""The control, in any library: what a run puts out where nothing was planted."""


def named(name: str) -> Plant:
    """The plant of mlx-lm of this name.

    Raises:
        UsageError: there is none.
    """
    from mlxdiag.audit.plants.plants import PLANTS

    found = next((plant for plant in PLANTS if plant.name == name), None)
    if found is None:
        raise UsageError(f"no plant {name!r}; known: {', '.join(plant.name for plant in PLANTS)}")
    return found
