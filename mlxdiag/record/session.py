"""One process under the probe: its recorder, and the libraries that are followed as they are imported."""

from __future__ import annotations

import atexit
import os
import sys
from types import ModuleType
from typing import Any

from mlxdiag.record import ring
from mlxdiag.record.followed import LIBRARIES, Library, library_of, loaded
from mlxdiag.record.following import Following
from mlxdiag.record.freezing import Freezing
from mlxdiag.record.hook import report
from mlxdiag.record.options import Options
from mlxdiag.record.output import File, Output, header, own_name
from mlxdiag.record.recorder import Recorder
from mlxdiag.record.ring import Ring
from mlxdiag.traces.types import Header


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
        self._followed: dict[Library, Following] = {}
        self._refused: list[Library] = []
        """Those that are not what is known of them."""
        self.recorder.on_fault = self._step_aside
        self._closed = False
        atexit.register(self.close)
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._forked)

    def imported(self, module: ModuleType, name: str) -> None:
        """Follow what a module has brought: its library, where that is complete with it."""
        library = library_of(name)
        if self._closed or library is None:
            return
        if library not in self._followed and library.ready(name):
            self._follow(library)
        if library in self._followed:
            self.recorder.guarded(self._followed[library].imported, module, name)

    def watch_loaded(self) -> None:
        """Follow what was imported before."""
        for library in LIBRARIES:
            if library not in self._followed and library.ready():
                self._follow(library)

    def _follow(self, library: Library) -> None:
        if library in self._refused:
            return
        patched = len(self.recorder.patches)
        try:
            following = library.follow(self.recorder, self.options.level)
        except Exception as error:  # noqa: BLE001  another version may differ in any way
            self.recorder.patches.undo(patched)
            self._refused.append(library)
            text = f"{library.package} is not recorded: {type(error).__name__}: {error}"
            sys.stderr.write(f"mlxdiag: {text}\n")
            return
        self._followed[library] = following
        self.recorder.models.libraries.append(following)
        for module, name in loaded(library):
            self.recorder.guarded(following.imported, module, name)
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
        setting = self.recorder.models.setting
        return header(options, self.recorder.scheduler, list(self._followed), setting)

    def _freeze(self, mark: str) -> None:
        output = self.recorder.output
        if isinstance(output, Ring):
            self.recorder.guarded(output.freeze, mark)

    def _step_aside(self) -> None:
        for following in self._followed.values():
            following.stop()
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
