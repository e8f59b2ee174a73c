"""Values inside a forward of transformers, by forward hooks and at the attention function."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial, wraps
from typing import Any

import numpy as np

from mlxdiag.models.inside import ATTENTION, Notes, Value, Wanted, place
from mlxdiag.models.patches import Patches


@contextmanager
def values(model: Any, wanted: Wanted) -> Iterator[list[Value]]:
    """The values of the forwards within; the list is filled at the end."""
    from transformers.modeling_utils import AttentionInterface

    notes, patches = Notes(wanted), Patches()
    found: list[Value] = []
    handles: list[Any] = []
    for name, module in model.named_modules():
        layer, part = place(name)
        if name and ((layer is not None and not part) or wanted(layer, part)):
            enter, leave = partial(_enter, notes, layer, part), partial(_leave, notes, layer, part)
            handles.append(module.register_forward_pre_hook(enter, with_kwargs=True))
            handles.append(module.register_forward_hook(leave, always_call=True))
    patches.add(AttentionInterface, "get_interface", partial(_interface, notes=notes))
    try:
        yield found
    finally:
        patches.undo()
        for handle in handles:
            handle.remove()
        found.extend(Value(spot, _read(array)) for spot, array in notes.held)


def _enter(
    notes: Notes, layer: int | None, part: str, _module: Any, args: Any, kwargs: dict[str, Any]
) -> None:
    if layer is not None and part == "":
        notes.running.append(layer)
    if notes.wanted(layer, part):
        notes.note(layer, part, "in", _first([*args, *kwargs.values()]))


def _leave(notes: Notes, layer: int | None, part: str, _module: Any, _args: Any, output: Any) -> None:
    if layer is not None and part == "":
        notes.running.pop()
    if notes.wanted(layer, part):
        notes.note(layer, part, "out", _first(output if isinstance(output, tuple) else [output]))


def _interface(original: Callable[..., Any], notes: Notes) -> Callable[..., Any]:
    def get_interface(*args: Any, **kwargs: Any) -> Any:
        function = original(*args, **kwargs)

        @wraps(function)
        def attend(module: Any, query: Any, key: Any, value: Any, *more: Any, **told: Any) -> Any:
            layer = notes.attention(*(_by_position(one) for one in (query, key, value)))
            result = function(module, query, key, value, *more, **told)
            if layer is not None:
                notes.note(layer, ATTENTION, "out", _first(result))
            return result

        return attend

    return get_interface


def _by_position(tensor: Any) -> Any:
    """[B, H, L, D] as [B, L, H, D], which is how attention functions return their result."""
    return tensor.transpose(1, 2) if tensor.ndim == 4 else tensor


def _first(candidates: Any) -> Any:
    """The first floating tensor: ids and masks are no values."""
    import torch

    return next(
        (one for one in candidates if isinstance(one, torch.Tensor) and one.is_floating_point()), None
    )


def _read(tensor: Any) -> np.ndarray[Any, Any]:
    read: np.ndarray[Any, Any] = tensor.detach().float().cpu().numpy()
    return read
