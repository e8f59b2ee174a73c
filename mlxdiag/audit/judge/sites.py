"""Where in the library's source the masks, states, positions and attention calls of a run are made.

Found at run time: a failing scenario is run once more with a profile function that notes who calls what. It
sees Python calls only, which is enough: masks are made by Python functions, and the probe's wrappers stand
in front of what is not.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

from mlxdiag.audit.judge.trial import Trial

PACKAGES = ("mlx_lm", "transformers")
"""Folders of audited libraries."""
MAKERS = frozenset({"create_attention_mask", "create_causal_mask", "make_mask", "create_ssm_mask"})
SHARED = frozenset({"base.py", "cache.py", "rope_utils.py", "switch_layers.py"})
"""Modules of the library that families call into: the line looked for is the family's own."""
PROBE = ("probe_calls.py", "probe_shapes.py")
"""Where the probe's wrappers of attention and RoPE stand."""
MASK, CALL, STATE, ROPE = "mask", "call", "state", "rope"


class Sites:
    """What was made where, by kind, step and layer."""

    def __init__(self, trial: Trial) -> None:
        self._trial = trial
        self._made: dict[int, tuple[Any, str]] = {}
        """By id of a mask: the mask, so that its id stays its own, and the line."""
        self._plain: dict[int, str] = {}
        """By step: where the last mask that is no array was asked for."""
        self._found: dict[tuple[str, int, int | None], str] = {}

    def of(self, kind: str, step: int | None, layers: list[int] | None) -> str:
        """The line of this kind at a step, for the first of these layers that has one; any layer without."""
        if step is None:
            return ""
        for layer in layers or []:
            if (kind, step, layer) in self._found:
                return self._found[kind, step, layer]
        found = (line for (k, s, _), line in self._found.items() if (k, s) == (kind, step))
        return next(found, "")

    @contextmanager
    def noting(self) -> Iterator[None]:
        """Note while the context lasts."""
        before = sys.getprofile()
        sys.setprofile(self._note)
        try:
            yield
        finally:
            sys.setprofile(before)

    def _note(self, frame: FrameType, event: str, value: Any) -> None:
        code = frame.f_code
        if event == "return" and code.co_name in MAKERS:
            self._mask(frame, value)
        elif event == "call" and code.co_name in ("attention", "rope") and _is(code.co_filename, *PROBE):
            self._called(frame, code.co_name)
        elif event == "call" and code.co_name == "__setitem__" and _is(code.co_filename, "cache.py"):
            self._keep(STATE, frame)

    def _mask(self, frame: FrameType, value: Any) -> None:
        line = caller(frame)
        if line and (value is None or isinstance(value, str)):
            self._plain[self._trial.step] = line
        elif line:
            self._made[id(value)] = value, line
        if line:
            self._found.setdefault((MASK, self._trial.step, None), line)

    def _called(self, frame: FrameType, name: str) -> None:
        if name == "rope":
            self._keep(ROPE, frame)
            return
        self._keep(CALL, frame)
        mask = frame.f_locals.get("kwargs", {}).get("mask")
        known = self._made.get(id(mask))
        line = known[1] if known is not None else None
        if line is None and (mask is None or isinstance(mask, str)):
            line = self._plain.get(self._trial.step)
        layer = self._trial.probe.layer
        if line is not None:
            self._found[MASK, self._trial.step, layer] = line

    def _keep(self, kind: str, frame: FrameType) -> None:
        line = caller(frame)
        if line:
            self._found.setdefault((kind, self._trial.step, self._trial.probe.layer), line)


def caller(frame: FrameType) -> str:
    """The nearest line above in a family's own module; "" where there is none."""
    above = frame.f_back
    while above is not None:
        path = Path(above.f_code.co_filename)
        if path.parent.name == "models" and path.parent.parent.name == "mlx_lm" and path.name not in SHARED:
            return place(str(path), above.f_lineno)
        above = above.f_back
    return ""


def place(filename: str, line: int) -> str:
    """`mlx_lm/models/gemma2.py:176`."""
    parts = Path(filename).parts
    package = next((name for name in PACKAGES if name in parts), None)
    at = len(parts) - 1 - parts[::-1].index(package) if package is not None else max(len(parts) - 2, 0)
    return f"{'/'.join(parts[at:])}:{line}"


def definition(method: Any) -> str:
    """Where a method is defined; "" for None and for what is not Python."""
    code = getattr(method, "__code__", None)
    return place(code.co_filename, code.co_firstlineno) if code is not None else ""


def line_with(path: Path, text: str) -> str:
    """The first line of a file that holds this text; its first line where none does."""
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if text in line:
            return place(str(path), number)
    return place(str(path), 1)


def _is(filename: str, *names: str) -> bool:
    return filename.endswith(tuple(f"/{name}" for name in names))
