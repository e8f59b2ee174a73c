"""Where faults are planted in transformers, and what they do meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import msgspec
from transformers import cache_utils
from transformers.modeling_utils import AttentionInterface

from mlxdiag.audit.cell import Scenario
from mlxdiag.audit.plants.outputs import Effect
from mlxdiag.models.adapter import Instance
from mlxdiag.models.patches import Patches

Wrap = Callable[[Callable[..., Any]], Callable[..., Any]]


class Bed:
    """The patches of one plant, and the count of what they do."""

    def __init__(self, instance: Instance, effect: Effect) -> None:
        self.instance = instance
        self.effect = effect
        self.patches = Patches()

    def note(self, changed: Any) -> None:
        """Count an intervention, where it changed something."""
        self.effect.note(bool(changed))

    def method(self, names: tuple[str, ...], name: str, wrap: Wrap) -> None:
        """Replace a method of these cache classes, where they define it themselves."""
        for cls in (getattr(cache_utils, named) for named in names):
            if name in vars(cls):
                self.patches.add(cls, name, wrap)

    def function(self, owner: Any, name: str, wrap: Wrap) -> None:
        """Replace a function or a method that the library looks up when it calls it."""
        self.patches.add(owner, name, wrap)


Install = Callable[[Bed], None]


class TorchPlant(msgspec.Struct, frozen=True, kw_only=True):
    """One fault; see `plants.plant.Plant`."""

    name: str
    title: str
    groups: tuple[str, ...] = ()
    install: Install
    blind: Mapping[str, str] = {}

    def touches(self, scenario: Scenario) -> bool:
        """Whether the scenario's path can reach the broken code."""
        return not self.groups or scenario.group in self.groups

    @contextmanager
    def apply(self, instance: Instance, scenario: Scenario) -> Iterator[Effect]:
        """Break the library until the context ends; yields what the fault does meanwhile."""
        effect = Effect()
        bed = Bed(instance, effect)
        try:
            with recorded(instance, effect):
                self.install(bed)
                yield effect
        finally:
            bed.patches.undo()


@contextmanager
def recorded(instance: Instance, effect: Effect) -> Iterator[None]:
    """Keep every forward of the instance's model under a probe in `effect.outputs`."""
    inside: list[bool] = []

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        def forward(model: Any, *args: Any, **kwargs: Any) -> Any:
            if inside or model is not instance.model or not _probed():
                return original(model, *args, **kwargs)
            ids = kwargs["input_ids"].numpy()
            inside.append(True)
            try:
                out = original(model, *args, **kwargs)
            except (ValueError, RuntimeError, TypeError, IndexError, AttributeError) as error:
                effect.outputs.append((ids, error))
                raise
            finally:
                inside.pop()
            seen = out.logits if getattr(instance, "head", None) is None else out.last_hidden_state
            effect.outputs.append((ids, seen.detach().float().numpy()))
            return out

        return forward

    patches = Patches()
    patches.add(type(instance.model), "forward", make)
    try:
        yield
    finally:
        patches.undo()


def _probed() -> bool:
    """A probe stands in front of the attention functions, which no plant replaces."""
    return hasattr(AttentionInterface.get_interface, "__wrapped__")
