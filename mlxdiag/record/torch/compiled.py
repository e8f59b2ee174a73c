"""What the hooks cannot see: functions under `torch.compile`, of which only the first call runs any Python.

The probe tells of compiled models (`probe_compiled`). A compiled function is told of as a step that was not
observed where it is a model's own, or has token ids and a model at hand, and nothing was seen of it.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator
from typing import Any

import torch
from transformers.generation import GenerationMixin

from mlxdiag.models.torch.probe import Probe
from mlxdiag.record.recorder import Recorder

KNOWN = ("transformers.", "torch._")
"""Callers whose compiled functions are told of by the probe, or run no model."""


def install(recorder: Recorder, probe: Probe) -> None:
    """Follow the functions that are compiled from now on."""

    def compiling(original: Callable[..., Any]) -> Callable[..., Any]:
        def compile(model: Any = None, *args: Any, **kwargs: Any) -> Any:
            made = original(model, *args, **kwargs)
            caller = str(sys._getframe(1).f_globals.get("__name__") or "")
            if model is None or isinstance(made, torch.nn.Module) or caller.startswith(KNOWN):
                return made
            return following(made, model, probe)

        return compile

    recorder.patches.add(torch, "compile", compiling)


def following(compiled: Callable[..., Any], function: Any, probe: Probe) -> Callable[..., Any]:
    """The compiled function; a call of which nothing is seen is told of."""
    reach = list(_reach(function))

    @functools.wraps(compiled)
    def call(*args: Any, **kwargs: Any) -> Any:
        if torch.compiler.is_compiling():
            return compiled(*args, **kwargs)
        given = (*args, *kwargs.values())
        model = next((one for one in (*reach, *given) if isinstance(one, GenerationMixin)), None)
        if model is None or not any(_are_ids(one) for one in given):
            return compiled(*args, **kwargs)
        probe.watch(model)
        return probe.blind(model, compiled, args, kwargs)

    return call


def _reach(function: Any) -> Iterator[Any]:
    """What a function can call without being given it: its own object, what it closes over, its globals."""
    yield getattr(function, "__self__", None)
    for cell in getattr(function, "__closure__", None) or ():
        try:
            yield cell.cell_contents
        except ValueError:
            # Not filled yet: whatever it will hold, a model among it is not found, and nothing is told.
            continue
    names = getattr(getattr(function, "__code__", None), "co_names", ())
    for name in names:
        yield getattr(function, "__globals__", {}).get(name)


def _are_ids(value: Any) -> bool:
    """Token ids, [B, L] of integers, by shape and type alone."""
    return isinstance(value, torch.Tensor) and value.ndim == 2 and not value.is_floating_point()
