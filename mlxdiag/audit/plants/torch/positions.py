"""Faults of positions: RoPE modules that place tokens elsewhere than the caller says."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mlxdiag.audit.plants.torch.bed import Bed


def ahead_in_decode(bed: Bed) -> None:
    """Single tokens are placed one further than they are."""

    def wrap(original: Callable[..., Any]) -> Callable[..., Any]:
        def forward(module: Any, x: Any, position_ids: Any = None, *args: Any, **kwargs: Any) -> Any:
            if position_ids is None or position_ids.shape[-1] != 1:
                return original(module, x, position_ids, *args, **kwargs)
            bed.note(True)
            return original(module, x, position_ids + 1, *args, **kwargs)

        return forward

    classes = dict.fromkeys(type(module) for module in bed.instance.model.modules())
    for cls in classes:
        if "RotaryEmbedding" in cls.__name__:
            bed.function(cls, "forward", wrap)
