"""Where faults are planted, whatever the library: patches, what they do, and the outputs meanwhile."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import ModuleType
from typing import Any

from mlxdiag.audit.plants.outputs import Effect
from mlxdiag.models.adapter import Instance
from mlxdiag.models.patches import Patches
from mlxdiag.replay.parity import Floats

Wrap = Callable[[Callable[..., Any]], Callable[..., Any]]


class Ground(ABC):
    """The patches of one plant, and the count of what they do. What a library adds to it is its `Bed`."""

    caches: ModuleType
    """The library's module of cache classes."""
    forward: str
    """The method of a model that runs a forward."""

    def __init__(self, instance: Instance, effect: Effect) -> None:
        self.instance = instance
        self.effect = effect
        self.patches = Patches()

    @abstractmethod
    def probed(self) -> bool:
        """Whether a probe stands in front of the attention functions, which no plant replaces."""

    @abstractmethod
    def ids(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """The ids [B, L] that a forward is given, as a numpy array."""

    @abstractmethod
    def logits(self, out: Any) -> Floats:
        """What a forward answers, [B, L, V]."""

    def note(self, changed: Any) -> None:
        """Count an intervention, where it changed something."""
        self.effect.note(changed)

    def method(self, names: tuple[str, ...], name: str, wrap: Wrap) -> None:
        """Replace a method of these cache classes, where they define it themselves."""
        for cls in (getattr(self.caches, named) for named in names):
            if name in vars(cls):
                self.patches.add(cls, name, wrap)

    @contextmanager
    def recorded(self) -> Iterator[None]:
        """Keep every forward of the instance's model under a probe in `effect.outputs`."""
        inside: list[bool] = []
        outputs = self.effect.outputs

        def make(original: Callable[..., Any]) -> Callable[..., Any]:
            def forward(model: Any, *args: Any, **kwargs: Any) -> Any:
                if inside or model is not self.instance.model or not self.probed():
                    return original(model, *args, **kwargs)
                ids = self.ids(args, kwargs)
                inside.append(True)
                try:
                    out = original(model, *args, **kwargs)
                    kept = self.logits(out)
                except (ValueError, RuntimeError, TypeError, IndexError, AttributeError) as error:
                    outputs.append((ids, error))
                    raise
                finally:
                    inside.pop()
                outputs.append((ids, kept))
                return out

            return forward

        patches = Patches()
        patches.add(type(self.instance.model), self.forward, make)
        try:
            yield
        finally:
            patches.undo()
