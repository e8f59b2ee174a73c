"""What the hooks cannot see: a function under `mx.compile` runs its Python code only when it is traced.

Every later call replays the graph. Such a call is written as a step whose attention was not observed, so
that no reader takes silence for health.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from mlxdiag.record.recorder import Recorder
from mlxdiag.traces.types import Attention, Entry

LIBRARIES = ("mlx.", "mlx_lm.models.", "mlx_lm.sample_utils", "mlxdiag.")
"""Compile activations and samplers, never a model: their functions are left as they are, and as fast."""


def install(module: Any, recorder: Recorder) -> None:
    """Follow the functions that are compiled from now on; `module` is `mlx.core`."""

    def compiling(original: Callable[..., Any]) -> Callable[..., Any]:
        def compile(*args: Any, **kwargs: Any) -> Any:
            made = original(*args, **kwargs)
            caller = sys._getframe(1).f_globals.get("__name__") or ""
            return made if f"{caller}.".startswith(LIBRARIES) else following(made, recorder)

        return compile

    recorder.patches.add(module, "compile", compiling)


def following(compiled: Callable[..., Any], recorder: Recorder) -> Callable[..., Any]:
    """The compiled function; a call in which no model ran, after one in which one did, is told of."""
    traced: list[tuple[str, str]] = []
    """Model and phase of the forwards that its last trace showed."""

    def call(*args: Any, **kwargs: Any) -> Any:
        seen = recorder.recent
        seen.clear()
        result = compiled(*args, **kwargs)
        if seen:
            traced[:] = seen
        elif traced:
            recorder.guarded(unseen, recorder, traced)
        return result

    return call


def unseen(recorder: Recorder, forwards: list[tuple[str, str]]) -> None:
    for model, phase in forwards:
        recorder.blind(
            Entry(
                phase=phase,
                model=model,
                attention=[Attention()],
                note="inside mx.compile, whose graph ran again: not observed",
            )
        )
