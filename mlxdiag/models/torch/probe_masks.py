"""How a mask was made, told from the library's own call that makes it.

Every `create_*_mask` of the library ends in a function of `AttentionMaskInterface`. What that was asked for
is noted on the mask itself, which goes from there to the attention calls, at once or through `generate`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from transformers import masking_utils

from mlxdiag.models.torch.probe_frame import Local

ATTRIBUTE = "_mlxdiag"


class Made(NamedTuple):
    """What is known of a mask beside its shape."""

    builder: str | None
    """causal, padded (causal, with padding blocked) or window; None for any other pattern."""
    key_padding: int | None
    """Columns of the 2-D mask that it was made with; None without one."""


UNKNOWN = Made(None, None)


def made(mask: Any) -> Made:
    """How this very mask was made; nothing is known of a copy or of a caller's own."""
    found: Made | None = getattr(mask, ATTRIBUTE, None)
    return UNKNOWN if found is None else found


def getitem_wrapper(original: Callable[..., Any], local: Local) -> Callable[..., Any]:
    """For `AttentionMaskInterface.__getitem__`: the function that it returns notes what it made."""
    wrappers: dict[Any, Callable[..., Any]] = {}

    def __getitem__(interface: Any, key: str) -> Any:
        function = original(interface, key)
        if torch.compiler.is_compiling():
            return function
        wrapper = wrappers.get(function)
        if wrapper is None:
            wrapper = wrappers[function] = _noting(function, local)
        return wrapper

    return __getitem__


def _noting(function: Callable[..., Any], local: Local) -> Callable[..., Any]:
    def make_mask(*args: Any, **kwargs: Any) -> Any:
        mask = function(*args, **kwargs)
        try:
            if isinstance(mask, torch.Tensor) and mask is not kwargs.get("attention_mask"):
                setattr(mask, ATTRIBUTE, _described(kwargs))
        except Exception as error:  # noqa: BLE001
            local.failed(error)
        return mask

    return make_mask


def _described(kwargs: dict[str, Any]) -> Made:
    padding, pattern = kwargs.get("attention_mask"), kwargs.get("mask_function")
    columns = int(padding.shape[-1]) if padding is not None and padding.ndim == 2 else None
    builder = None
    if pattern is masking_utils.causal_mask_function:
        builder = "causal" if columns is None else "padded"
    elif kwargs.get("local_size") is not None:
        builder = "window"
    return Made(builder, columns)
