"""One process under the probe: its recorder, its probe, and what is hooked as modules are imported."""

from __future__ import annotations

import atexit
import os
import sys
from importlib import import_module
from types import ModuleType

from mlxdiag.models.mlx.probe import Probe
from mlxdiag.record.hook import FAMILIES, report
from mlxdiag.record.options import REPORT, Options
from mlxdiag.record.output import File, header, own_name
from mlxdiag.record.recorder import Recorder

HOOKS = {
    "mlx_lm.models.cache": ("mlxdiag.record.files", "mlxdiag.record.prompt_caches"),
    "mlx_lm.utils": ("mlxdiag.record.loading",),
    "mlx_lm.generate": ("mlxdiag.record.single", "mlxdiag.record.batch"),
}
"""After a module of mlx-lm is imported, `install(module, recorder)` of each of these is called."""


class Session:
    """Stateful, one a process."""

    def __init__(self, options: Options, main: bool = True, launched: bool = True) -> None:
        self.options = options
        self._writes_end = not (main and os.environ.get(REPORT))
        """The launcher writes the main process's last line: it alone will know the exit code."""
        self.path = own_name(options.path, main)
        output = File(
            self.path, lambda: header(options.level, options.tokens), lambda: report(f"file {self.path}")
        )
        self.recorder = Recorder(output, tokens=options.tokens)
        level = "visibility" if options.level == "visibility" else "shapes"
        self.probe = Probe(self.recorder.sink, level=level)
        self.recorder.model_of, self.recorder.name_of = self.probe.model, self.probe.watch
        self.recorder.on_fault = self.probe.remove
        self.probe.install()
        atexit.register(self.close)

    def imported(self, module: ModuleType) -> None:
        """Follow what a module of mlx-lm has brought."""
        name = module.__name__
        for hooks in HOOKS.get(name, ()):
            self.recorder.guarded(import_module(hooks).install, module, self.recorder)
        model = getattr(module, "Model", None)
        if name.startswith(FAMILIES) and isinstance(model, type):
            self.probe.watch_class(model)

    def watch_loaded(self) -> None:
        """Follow what was imported before."""
        for name, module in list(sys.modules.items()):
            if name.startswith("mlx_lm.") and module is not None:
                self.imported(module)

    def close(self) -> None:
        """End the recording: the originals are back, what is held is written."""
        atexit.unregister(self.close)
        self.probe.remove()
        self.recorder.patches.undo()
        self.recorder.close(end=self._writes_end)
