"""mlx-lm under its probe, and what is hooked as its modules are imported."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType
from typing import Any

import mlx.core
import mlx.nn

from mlxdiag.models.adapter import Geometry
from mlxdiag.models.mlx.instance import device_name
from mlxdiag.models.mlx.probe import Probe
from mlxdiag.models.mlx.probe_tags import tag_of, uids_of
from mlxdiag.record.mlx import compiled
from mlxdiag.record.mlx.announce import announce
from mlxdiag.record.recorder import Recorder
from mlxdiag.record.visible import Visible
from mlxdiag.traces.types import Entry

FAMILIES = "mlx_lm.models."
HOOKS = {
    "mlx_lm.models.cache": ("mlxdiag.record.mlx.files", "mlxdiag.record.mlx.prompt_caches"),
    "mlx_lm.utils": ("mlxdiag.record.mlx.loading",),
    "mlx_lm.generate": ("mlxdiag.record.mlx.single", "mlxdiag.record.mlx.batch"),
    "mlx_lm.server": ("mlxdiag.record.mlx.server",),
}
"""After a module of mlx-lm is imported, `install(module, recorder)` of each of these is called."""


def follow(recorder: Recorder, level: str) -> MlxFollowing:
    """Put the probe in."""
    return MlxFollowing(recorder, level)


class MlxFollowing:
    """See `following.Following`."""

    def __init__(self, recorder: Recorder, level: str) -> None:
        self.recorder = recorder
        self.probe = Probe(recorder.sink, level=level, fault=recorder.fault, numbers=recorder.models.numbers)
        self.visible: Visible | None = None
        if level == "visibility":
            self.visible = Visible(self.probe, self._uids, _offset)
            self.probe.before = self.visible.before
        self.probe.install()
        compiled.install(mlx.core, recorder)

    def imported(self, module: ModuleType, name: str) -> None:
        for hooks in HOOKS.get(name, ()):
            self.recorder.guarded(import_module(hooks).install, module, self.recorder)
        model = getattr(module, "Model", None)
        if name.startswith(FAMILIES) and isinstance(model, type):
            self.probe.watch_class(model)

    def watch(self, model: Any) -> str | None:
        return self.probe.watch(model) if isinstance(model, mlx.nn.Module) else None

    def model(self, name: str) -> Any:
        return self.probe.model(name)

    def announce(self, model: Any, name: str) -> tuple[Entry, Geometry | None]:
        config, directory = self.recorder.models.loaded.get(id(model), (None, None))
        return announce(model, name, config, directory)

    def setting(self, model: Any) -> dict[str, str]:
        return {"device": device_name()}

    def stop(self) -> None:
        self.probe.remove()

    def _uids(self, caches: Any) -> list[int]:
        return uids_of(caches, self.probe.copied)


def _offset(caches: Any) -> int:
    """Tokens held, by the first cache that counts them."""
    for entry in caches if isinstance(caches, list | tuple) else ():
        for cache in getattr(entry, "caches", (entry,)):
            offset = tag_of(cache).offset_of(cache) if hasattr(cache, "__dict__") else None
            if isinstance(offset, int):
                return offset
    return 0
