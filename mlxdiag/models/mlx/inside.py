"""Values inside a forward of mlx-lm: the classes of a model's modules are wrapped for a while."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np

from mlxdiag.models.inside import ATTENTION, Notes, Value, Wanted, place
from mlxdiag.models.patches import Patches

Names = dict[int, tuple[int | None, str]]


@contextmanager
def values(model: Any, wanted: Wanted) -> Iterator[list[Value]]:
    """The values of the forwards within; the list is filled, and evaluated, at the end."""
    import mlx.core as mx

    notes, patches = Notes(wanted), Patches()
    found: list[Value] = []
    names: Names = {}
    for name, module in model.named_modules():
        layer, part = place(name)
        if name and ((layer is not None and not part) or wanted(layer, part)):
            names[id(module)] = layer, part
            for cls in type(module).__mro__:
                if "__call__" in vars(cls):
                    patches.add(cls, "__call__", partial(_module, notes=notes, names=names))
                    break
    patches.add(mx.fast, "scaled_dot_product_attention", partial(_attention, notes=notes))
    try:
        yield found
    finally:
        patches.undo()
        mx.eval([array for _, array in notes.held])
        found.extend(Value(spot, _read(array)) for spot, array in notes.held)


def _module(original: Callable[..., Any], notes: Notes, names: Names) -> Callable[..., Any]:
    def call(module: Any, *args: Any, **kwargs: Any) -> Any:
        layer, part = names.get(id(module), (None, None))
        if part is None:
            return original(module, *args, **kwargs)
        if layer is not None and part == "":
            notes.running.append(layer)
        try:
            if notes.wanted(layer, part):
                notes.note(layer, part, "in", _first([*args, *kwargs.values()]))
            result = original(module, *args, **kwargs)
        finally:
            if layer is not None and part == "":
                notes.running.pop()
        if notes.wanted(layer, part):
            notes.note(layer, part, "out", _first(result if isinstance(result, tuple) else [result]))
        return result

    return call


def _attention(original: Callable[..., Any], notes: Notes) -> Callable[..., Any]:
    def attend(queries: Any, keys: Any, values: Any, *more: Any, **told: Any) -> Any:
        layer = notes.attention(*(one.swapaxes(1, 2) for one in (queries, keys, values)))
        result = original(queries, keys, values, *more, **told)
        if layer is not None:
            notes.note(layer, ATTENTION, "out", result.swapaxes(1, 2))
        return result

    return attend


def _first(candidates: Any) -> Any:
    """The first floating array: ids and masks are no values. As an object of its own, for `h *= scale` in a
    model puts another value into the one that it was given.
    """
    import mlx.core as mx

    for one in candidates:
        if isinstance(one, mx.array) and mx.issubdtype(one.dtype, mx.floating):
            return mx.stop_gradient(one)
    return None


def _read(array: Any) -> np.ndarray[Any, Any]:
    import mlx.core as mx

    return np.array(array.astype(mx.float32))
