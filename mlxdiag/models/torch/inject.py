"""Masks handed in by a caller in place of those that the library builds.

Every attention call goes through `AttentionInterface.get_interface`; what it returns is wrapped, so that the
mask of a layer is replaced just before the call. Layers that compute their softmax by hand are not reached.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any

import numpy as np

from mlxdiag.errors import UsageError
from mlxdiag.models.adapter import USE_LIBRARY, Chooser, Geometry
from mlxdiag.models.patches import Patches


@contextmanager
def caller_masks(geometry: Geometry, choose: Chooser) -> Iterator[None]:
    """Ask `choose` for the mask of each layer, within. The original function is back afterwards.

    Raises UsageError where no layer of the family takes a mask from outside.
    """
    from transformers.modeling_utils import AttentionInterface

    from mlxdiag.models.torch.probe_functions import SDPA, kind_of

    if all(layer.softmax != "fused" for layer in geometry.layers):
        raise UsageError(f"{geometry.architecture}: no layer takes its mask from outside")

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        def get_interface(self: Any, implementation: str, default: Callable[..., Any]) -> Callable[..., Any]:
            call = original(self, implementation, default)
            kind = kind_of(call)

            @wraps(call)
            def attention(
                module: Any, query: Any, key: Any, value: Any, attention_mask: Any, *args: Any, **kwargs: Any
            ) -> Any:
                spec = geometry.layer(getattr(module, "layer_idx", -1))
                chosen = choose(spec) if spec is not None else USE_LIBRARY
                if chosen is not USE_LIBRARY:
                    attention_mask = as_given(chosen, query, key, kind)
                    if chosen is None and kind == SDPA and query.shape[2] == key.shape[2] > 1:
                        # Left alone, sdpa takes no mask for causal here, and was asked for none at all.
                        kwargs["is_causal"] = False
                return call(module, query, key, value, attention_mask, *args, **kwargs)

            return attention

        return get_interface

    patches = Patches()
    patches.add(AttentionInterface, "get_interface", make)
    try:
        yield
    finally:
        patches.undo()


def as_given(mask: Any, query: Any, key: Any, kind: str) -> Any:
    """A mask in the form that the library gives to functions of this kind (`probe_functions`): boolean for
    sdpa, else numbers to be added, of which the most negative one hides a key. [1, 1, q, K], or None.
    """
    from mlxdiag.models.torch.attend import as_mask
    from mlxdiag.models.torch.probe_effect import takes_boolean
    from mlxdiag.models.torch.probe_functions import SDPA

    if isinstance(mask, str):
        q, held = query.shape[2], key.shape[2]
        if kind == SDPA and q == held > 1:
            return None  # which is causal there
        mask = np.tri(q, held, held - q, dtype=bool)
    return as_mask(mask, query, takes_boolean(kind))
