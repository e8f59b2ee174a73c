"""One process under the probe: its recorder, its probe, and what is hooked as modules are imported."""

from __future__ import annotations

import atexit
import os
import sys
from importlib import import_module
from types import ModuleType
from typing import Any

import mlx.core

from mlxdiag.models.mlx.probe import Probe
from mlxdiag.record import compiled, ring
from mlxdiag.record.freezing import Freezing
from mlxdiag.record.hook import FAMILIES, report
from mlxdiag.record.options import Options
from mlxdiag.record.output import File, Output, header, own_name
from mlxdiag.record.recorder import Recorder
from mlxdiag.record.ring import Ring
from mlxdiag.record.visible import Visible
from mlxdiag.traces.types import Header

HOOKS = {
    "mlx_lm.models.cache": ("mlxdiag.record.files", "mlxdiag.record.prompt_caches"),
    "mlx_lm.utils": ("mlxdiag.record.loading",),
    "mlx_lm.generate": ("mlxdiag.record.single", "mlxdiag.record.batch"),
    "mlx_lm.server": ("mlxdiag.record.server",),
}
"""After a module of mlx-lm is imported, `install(module, recorder)` of each of these is called."""


class Session:
    """Stateful, one a recording. `main`: the trace has the name that was asked for."""

    def __init__(self, options: Options, main: bool = True, launched: bool = False) -> None:
        """`launched`: a launcher waits for the end and writes the last line, for it alone knows the exit
        code.
        """
        self.options = options
        self._writes_end = not (main and launched)
        self.path = own_name(options.path, main)
        self.recorder = Recorder(self._output(), tokens=options.tokens)
        self._freezing = Freezing(self._freeze) if options.ring else None
        self.probe = Probe(self.recorder.sink, level=options.level, fault=self.recorder.fault)
        self.recorder.models.model_of, self.recorder.name_of = self.probe.model, self.probe.watch
        self.recorder.on_fault = self._step_aside
        if options.level == "visibility":
            self.recorder.visible = Visible(self.probe)
            self.probe.before = self.recorder.visible.before
        self.probe.install()
        compiled.install(mlx.core, self.recorder)
        self._closed = False
        atexit.register(self.close)
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._forked)

    def imported(self, module: ModuleType, name: str) -> None:
        """Follow what a module of mlx-lm has brought."""
        if self._closed:
            return
        for hooks in HOOKS.get(name, ()):
            self.recorder.guarded(import_module(hooks).install, module, self.recorder)
        model = getattr(module, "Model", None)
        if name.startswith(FAMILIES) and isinstance(model, type):
            self.probe.watch_class(model)

    def watch_loaded(self) -> None:
        """Follow what was imported before."""
        for name, module in list(sys.modules.items()):
            ready = not getattr(getattr(module, "__spec__", None), "_initializing", False)
            if name.startswith("mlx_lm.") and module is not None and ready:
                self.imported(module, name)
        self.recorder.patches.spread(list(sys.modules.values()))

    def close(self) -> None:
        """End the recording: the originals are back, what is held is written. Harmless when closed."""
        if self._closed:
            return
        self._closed = True
        if self._freezing is not None:
            self._freezing.stop()
        atexit.unregister(self.close)
        self.recorder.guarded(self.recorder.close, None, self._writes_end)
        self._step_aside()
        if self._writes_end and self.options.ring:
            ring.join(self.path)

    def _output(self) -> Output:
        def told() -> None:
            report(f"file {self.path}")

        options = self.options
        if options.ring:
            return Ring(self.path, self._header, options.ring, told)
        return File(self.path, self._header, told)

    def _header(self) -> Header:
        options = self.options
        return header(options.level, options.tokens, options.ring, self.recorder.scheduler)

    def _freeze(self, mark: str) -> None:
        output = self.recorder.output
        if isinstance(output, Ring):
            self.recorder.guarded(output.freeze, mark)

    def _step_aside(self) -> None:
        self.probe.remove()
        self.recorder.patches.undo()

    def _forked(self) -> None:
        """In the child of a fork: go on in a file of its own."""
        if self._closed or not self.recorder.alive:
            return
        self._writes_end = True
        self.path = own_name(self.options.path, main=False)
        self.recorder.forked(self._output())
        # A multiprocessing child never reaches `atexit`, and first forgets the finalizers of its parent.
        util: Any = sys.modules.get("multiprocessing.util")
        if util is not None:
            util.register_after_fork(self, _close_with_process)


def _close_with_process(session: Session) -> None:
    util: Any = sys.modules["multiprocessing.util"]
    util.Finalize(session, session.close, exitpriority=100)
