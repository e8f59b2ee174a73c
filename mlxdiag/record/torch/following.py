"""transformers under its probe, and what is hooked as its modules are imported."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib import import_module
from types import ModuleType
from typing import Any

import torch
from transformers import modeling_utils
from transformers.generation import GenerationMixin

from mlxdiag.models.adapter import Geometry
from mlxdiag.models.events import Event, Feeding, StepEvent
from mlxdiag.models.torch.probe import Probe
from mlxdiag.record.recorder import Recorder
from mlxdiag.record.torch import compiled, continuous, generating
from mlxdiag.record.torch.announce import announce, has_encoder, setting
from mlxdiag.record.torch.caches import Caches
from mlxdiag.record.visible import Visible
from mlxdiag.traces.types import Entry

HOOKS = {"transformers.cli.serving.utils": "mlxdiag.record.torch.serving"}
"""After a module is imported, `install(module, recorder)` of its hook is called."""


def follow(recorder: Recorder, level: str) -> TorchFollowing:
    """Put the probe in."""
    return TorchFollowing(recorder, level)


class TorchFollowing:
    """See `following.Following`. Models that can generate are followed, each from its making on; of the
    others, encoders and towers, nothing is known of what their attention should be.
    """

    def __init__(self, recorder: Recorder, level: str) -> None:
        self.recorder = recorder
        # Digests are read later, which nothing on this side would bear: see `followed.TRANSFORMERS`.
        probed = "shapes" if level == "digest" else level
        self.probe = Probe(self._sink, level=probed, fault=recorder.fault, numbers=recorder.models.numbers)
        caches = Caches(self.probe)
        self.visible: Visible | None = None
        if level == "visibility":
            self.visible = Visible(self.probe, caches.uids, caches.held)
            self.probe.before = self._before
        recorder.patches.add(modeling_utils.PreTrainedModel, "__init__", self._made)
        generating.install(recorder, caches)
        continuous.install(recorder)
        compiled.install(recorder, self.probe)
        try:
            self.probe.install()
            for cls in _subclasses(modeling_utils.PreTrainedModel):
                if issubclass(cls, GenerationMixin):
                    self.probe.watch_class(cls)
        except Exception:
            self.probe.remove()
            raise

    def imported(self, module: ModuleType, name: str) -> None:
        hooks = HOOKS.get(name)
        if hooks is not None:
            import_module(hooks).install(module, self.recorder)

    def watch(self, model: Any) -> str | None:
        return self.probe.watch(model) if isinstance(model, torch.nn.Module) else None

    def model(self, name: str) -> Any:
        return self.probe.model(name)

    def announce(self, model: Any, name: str) -> tuple[Entry, Geometry | None]:
        return announce(model, name)

    def setting(self, model: Any) -> dict[str, str]:
        return setting(model)

    def stop(self) -> None:
        self.probe.remove()

    def _sink(self, event: Event) -> None:
        if isinstance(event, StepEvent) and has_encoder(self.probe.model(event.model)):
            return
        self.recorder.sink(event)

    def _made(self, original: Callable[..., None]) -> Callable[..., None]:
        def __init__(model: Any, *args: Any, **kwargs: Any) -> None:
            original(model, *args, **kwargs)
            if isinstance(model, GenerationMixin):
                self.recorder.guarded(self.probe.watch_class, type(model))

        return __init__

    def _before(self, step: StepEvent, cache: Any) -> Feeding | None:
        assert self.visible is not None
        if self.probe.packs:
            # Blocks of keys are shared between requests: which of them is whose cannot be told.
            self.visible.known = False
            return None
        return self.visible.before(step, cache)


def _subclasses(cls: type) -> Iterator[type]:
    children: list[type] = type.__subclasses__(cls)
    for child in children:
        yield child
        yield from _subclasses(child)
