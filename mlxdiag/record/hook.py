"""The start-up hook: waits for mlx-lm to be imported, and costs one look-up an import until then.

Imports nothing but the standard library, so that a program that never runs a model never pays for one.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

from mlxdiag.record.options import MAIN, REPORT, Options, from_environment

CACHES = "mlx_lm.models.cache"
"""Imported before any model and before whatever makes or keeps a prompt cache."""
FAMILIES = "mlx_lm.models."


class Finder(MetaPathFinder):
    """Calls `imported` after a watched module has been executed."""

    def __init__(self, imported: Callable[[ModuleType], None]) -> None:
        self.imported = imported
        self._busy = False

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The spec that the other finders give, made to tell when the module is ready."""
        if not fullname.startswith("mlx_lm.") or self._busy:
            return None
        self._busy = True
        try:
            spec = self._found(fullname, path, target)
        finally:
            self._busy = False
        if spec is not None and spec.loader is not None:
            tell_after(spec, self.imported)
        return spec

    def _found(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None
    ) -> ModuleSpec | None:
        for finder in sys.meta_path:
            if finder is not self and hasattr(finder, "find_spec"):
                spec = finder.find_spec(fullname, path, target)
                if spec is not None:
                    return spec
        return None


def tell_after(spec: ModuleSpec, imported: Callable[[ModuleType], None]) -> None:
    """Let the spec's own loader call `imported` when it has executed the module, once."""
    loader = spec.loader
    assert loader is not None
    execute = loader.exec_module

    def exec_module(module: ModuleType) -> None:
        del loader.exec_module  # the class's own is back
        execute(module)
        imported(module)

    loader.exec_module = exec_module  # type: ignore[method-assign]


def start() -> None:
    """Begin to watch imports, if the environment asks for a recording. Never raises."""
    try:
        options = from_environment(os.environ)
    except ValueError as error:
        sys.stderr.write(f"mlxdiag: not recorded: {error}\n")
        return
    if options is None:
        return
    main = os.environ.setdefault(MAIN, str(os.getpid())) == str(os.getpid())
    report(f"python {os.getpid()}")
    sys.meta_path.insert(0, Finder(Starter(options, main)))


class Starter:
    """Builds the session when the first module of interest has been imported."""

    def __init__(self, options: Options, main: bool) -> None:
        self.options = options
        self.main = main
        self._session: Callable[[ModuleType], None] | None = None
        self._failed = False

    def __call__(self, module: ModuleType) -> None:
        if self._failed:
            return
        try:
            if self._session is None:
                if module.__name__ != CACHES:
                    return
                from mlxdiag.record.session import Session

                report(f"mlx {os.getpid()}")
                self._session = Session(self.options, self.main, bool(os.environ.get(REPORT))).imported
            self._session(module)
        except Exception as error:  # noqa: BLE001  the program must not feel it
            self._failed = True
            sys.stderr.write(f"mlxdiag: not recorded: {type(error).__name__}: {error}\n")


def report(line: str) -> None:
    """Tell the launcher, if there is one."""
    path = os.environ.get(REPORT)
    if not path:
        return
    try:
        with open(path, "a", encoding="utf-8") as file:
            file.write(line + "\n")
    except OSError:
        # The launcher is gone and its folder with it: nobody is left to be told.
        os.environ.pop(REPORT, None)
