"""The start-up hook: waits for mlx-lm or transformers, and costs one look-up an import until then.

Imports nothing but the standard library, so that a program that never runs a model never pays for one.
"""

from __future__ import annotations

import ast
import os
import sys
from collections.abc import Callable, Sequence
from functools import partial
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from mlxdiag.record.followed import PREFIXES, library_of
from mlxdiag.record.options import MAIN, REPORT, Options, from_environment

PROGRAMS = ("mlx_lm.generate", "mlx_lm.server")
"""Also run by `python -m`, which executes their code once more, as `__main__`."""

Imported = Callable[[ModuleType, str], None]
"""Told of a module and the name it was imported by."""


class Finder(MetaPathFinder):
    """Calls `imported` after a watched module has been executed."""

    def __init__(self, imported: Imported) -> None:
        self.imported = imported
        self._busy = False

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The spec that the other finders give, made to tell when the module is ready."""
        if not fullname.startswith(PREFIXES) or self._busy or library_of(fullname) is None:
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


def tell_after(spec: ModuleSpec, imported: Imported) -> None:
    """Let the spec's own loader call `imported` when it has executed the module, once."""
    loader: Any = spec.loader
    execute = loader.exec_module

    def exec_module(module: ModuleType) -> None:
        # The class's own are back before the module runs: nobody will find ours.
        del loader.exec_module
        vars(loader).pop("get_code", None)
        execute(module)
        if spec.name in PROGRAMS:
            loader.get_code = partial(code_of_main, loader)
        imported(module, spec.name)

    loader.exec_module = exec_module
    if spec.name in PROGRAMS:
        loader.get_code = partial(code_of_main, loader)


def code_of_main(loader: Any, name: str) -> Any:
    """The code that `python -m NAME` runs as `__main__`: what it defines is hooked before it is called.

    Only runpy asks a loader for code; the module of the same name, if imported too, is another one.
    """
    source = loader.get_source(name)
    if source is None:
        return type(loader).get_code(loader, name)
    tree = ast.parse(source)
    for index, statement in enumerate(tree.body):
        if isinstance(statement, ast.If) and "__name__" in ast.unparse(statement.test):
            hook = ast.parse(f"from {__name__} import main_is_defined; main_is_defined()").body
            for one in hook:
                ast.copy_location(one, statement)
            tree.body[index:index] = hook
            break
    return compile(ast.fix_missing_locations(tree), loader.get_filename(name), "exec", dont_inherit=True)


def main_is_defined() -> None:
    """Called by `python -m mlx_lm.server` and the like, when all is defined and nothing has run."""
    module = sys.modules["__main__"]
    vars(module).pop("main_is_defined", None)
    spec = module.__spec__
    for finder in sys.meta_path:
        if isinstance(finder, Finder) and spec is not None:
            finder.imported(module, spec.name)


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
    """Builds the session when the first library that can be recorded has been imported."""

    def __init__(self, options: Options, main: bool) -> None:
        self.options = options
        self.main = main
        self._session: Imported | None = None
        self._failed = False

    def __call__(self, module: ModuleType, name: str) -> None:
        if self._failed:
            return
        try:
            library = library_of(name)
            if self._session is None and library is not None and library.ready(name):
                self._start()
            if self._session is not None:
                self._session(module, name)
        except Exception as error:  # noqa: BLE001  the program must not feel it
            self._failed = True
            sys.stderr.write(f"mlxdiag: not recorded: {type(error).__name__}: {error}\n")

    def _start(self) -> None:
        from mlxdiag.record.session import Session

        report(f"library {os.getpid()}")
        session = Session(self.options, self.main, bool(os.environ.get(REPORT)))
        self._session = session.imported
        session.watch_loaded()


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
