"""The one place that imports mlx and mlx-lm for the adapter, and the module of a family.

Import order matters: MLX reads MLX_DISABLE_COMPILE when it first compiles, and its CPU compiler calls g++
for every new graph, which makes many small models several times slower. So it is switched off here before
any model code is imported, when no GPU computes; a value that the user has set is respected.
"""

from __future__ import annotations

import contextlib
import importlib
import inspect
import io
import os
import signal
import sys
import traceback
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from mlxdiag.models.adapter import Skipped
from mlxdiag.models.mlx.families import ABSENT, TEXT_ONLY

COMPILE_SWITCH = "MLX_DISABLE_COMPILE"
deadly: dict[str, str] = {}
"""Modules whose import has ended a process, and how: none of them is imported again."""


class Broken(Skipped, frozen=True):
    """A family that the library itself breaks: it is there and cannot be imported, and nothing is missing."""

    where: str = ""
    """The innermost line of the library: `mlx_lm/models/qwen3.py:12`."""


def load() -> ModuleType | Skipped:
    """The `mlx_lm` package, imported once; why not, where it cannot be."""
    try:
        mx = importlib.import_module("mlx.core")
    except (Exception, SystemExit) as error:  # noqa: BLE001  a broken native library may raise anything
        kind = "mlx" if sys.platform == "darwin" else "mlx[cpu]"
        return Skipped(f"mlx cannot be imported: {_one_line(error)}", f'pip install "{kind}>=0.32"')
    if mx.default_device() != mx.gpu:
        os.environ.setdefault(COMPILE_SWITCH, "1")
    try:
        return importlib.import_module("mlx_lm")
    except (Exception, SystemExit) as error:  # noqa: BLE001  see above
        return Skipped(f"mlx-lm cannot be imported: {_one_line(error)}", 'pip install "mlx-lm>=0.32"')


def module_name(model_type: str, architectures: Iterable[str] = ()) -> str:
    """The module that the library takes for a `model_type`, and for the classes that a config names, as two
    models may bear one type. The library must be loaded."""
    utils = importlib.import_module("mlx_lm.utils")
    special = getattr(utils, "MODEL_ARCHITECTURE_REMAPPING", {})
    found = (special.get((model_type, one)) for one in architectures)
    return str(next((name for name in found if name), utils.MODEL_REMAPPING.get(model_type, model_type)))


def family_of(config: Mapping[str, Any]) -> ModuleType | Skipped:
    """As `family`, for a whole config.json."""
    named = config.get("architectures") or ()
    return family(str(config.get("model_type")), (named,) if isinstance(named, str) else named)


def family(model_type: str, architectures: Iterable[str] = ()) -> ModuleType | Skipped:
    """The module of mlx-lm that defines this `model_type`; see `module_name`.

    Everything is caught: a family may call `sys.exit` at import when an extra package is missing (olmo does).
    What it prints meanwhile is kept from the output, and told where it ends the import. Where it fails for no
    package that is missing, a Broken says so.
    """
    if model_type in ABSENT:
        return Skipped(*ABSENT[model_type])
    library = load()
    if isinstance(library, Skipped):
        return library
    name = module_name(model_type, architectures)
    if not name.replace("-", "_").isidentifier():
        return Skipped(f"{model_type!r} is not the name of a model family")
    if name in deadly:
        file = f"mlx_lm/models/{name}.py"
        return Broken(f"family {model_type} cannot be imported: the process {deadly[name]}", where=file)
    printed = io.StringIO()
    try:
        with contextlib.redirect_stdout(printed):
            module = importlib.import_module(f"mlx_lm.models.{name}")
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt) and interruptible():
            raise
        if isinstance(error, ModuleNotFoundError) and error.name == f"mlx_lm.models.{name}":
            return Skipped(f"mlx-lm {library.__version__} has no family {model_type}")
        return _why_not(model_type, error, printed.getvalue())
    if not (hasattr(module, "Model") and hasattr(module, "ModelArgs")):
        return Skipped(f"mlx_lm.models.{name} is no model family")
    return module


def forbid(name: str, how: str) -> None:
    """Import this module no more, be it for another one's sake, for it ended a process (`how`)."""
    deadly[name] = how
    sys.modules[f"mlx_lm.models.{name}"] = None  # type: ignore[assignment]


def interruptible() -> bool:
    """Whether a KeyboardInterrupt may be the user's. In a worker, which ignores the signal, it is not."""
    return signal.getsignal(signal.SIGINT) is not signal.SIG_IGN


def _why_not(model_type: str, error: BaseException, printed: str) -> Skipped:
    """What is to be installed, or how the library breaks."""
    absent = error.__context__ if isinstance(error, SystemExit) else error
    if isinstance(absent, ModuleNotFoundError) and absent.name and absent.name.split(".")[0] != "mlx_lm":
        hint = " ".join(printed.split())[:200] or f"pip install {absent.name}"
        return Skipped(f"family {model_type} needs the package {absent.name}", hint)
    said = f"{type(error).__name__}: {_one_line(error)}"
    return Broken(f"family {model_type} cannot be imported: {said}", where=_where(error))


def _where(error: BaseException) -> str:
    frames = [(frame.filename, frame.lineno) for frame in traceback.extract_tb(error.__traceback__)]
    if isinstance(error, SyntaxError):
        frames.append((error.filename or "", error.lineno))
    for file, line in reversed(frames):
        parts = Path(file).parts
        if "mlx_lm" in parts:
            return f"{'/'.join(parts[parts.index('mlx_lm') :])}:{line}"
    return ""


def wrapped(config: Mapping[str, Any]) -> dict[str, Any]:
    """A text-only config put into the wrapper that the library knows, where it knows no other."""
    outer = TEXT_ONLY.get(str(config.get("model_type")))
    if outer is None or "text_config" in config:
        return dict(config)
    return {"model_type": outer, "text_config": dict(config)}


def defaults(module: ModuleType, nested: bool) -> dict[str, Any]:
    """Fields of a family's argument class with their defaults, `...` where one has none."""
    arguments = getattr(module, "TextConfig", None) or getattr(module, "TextArgs", None) if nested else None
    parameters = inspect.signature(arguments or module.ModelArgs).parameters.values()
    return {
        parameter.name: ... if parameter.default is inspect.Parameter.empty else parameter.default
        for parameter in parameters
    }


def _one_line(error: BaseException) -> str:
    try:
        text = " ".join(str(error).split())
    except Exception:  # noqa: BLE001  an exception's text is the library's code, too
        text = "its text cannot be read"
    return text[:200] or type(error).__name__
