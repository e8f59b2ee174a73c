"""Masks handed in by a caller, as a server's scheduler does, in place of those that the library builds.

Families import `create_attention_mask` by value, so it is replaced in the module whose code runs the layers
(`Instance.module`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

from mlxdiag.errors import UsageError
from mlxdiag.models.adapter import USE_LIBRARY
from mlxdiag.models.patches import Patches

Chooser = Callable[[Any, Any, int | None, bool], Any]
"""`chooser(h, cache, window_size, return_array)`: h are the hidden states [B, L, D], the cache is that of
one layer of the family that the mask is for, and the rest is what the library asked for. Returns a mask
array of any shape, "causal", None, or USE_LIBRARY.
"""

_NAME = "create_attention_mask"


@contextmanager
def caller_masks(module: ModuleType, chooser: Chooser) -> Iterator[None]:
    """Ask `chooser` for each mask that `module` builds. The original function is back afterwards.

    Raises UsageError where the module builds no mask through the library's function.
    """
    if _NAME not in vars(module):
        raise UsageError(f"{module.__name__} takes no mask from {_NAME}, so a caller's cannot be handed in")

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        def create_attention_mask(
            h: Any, cache: Any = None, window_size: int | None = None, return_array: bool = False
        ) -> Any:
            chosen = chooser(h, cache, window_size, return_array)
            if chosen is USE_LIBRARY:
                return original(h, cache, window_size=window_size, return_array=return_array)
            return chosen

        return create_attention_mask

    patches = Patches()
    patches.add(module, _NAME, make)
    try:
        yield
    finally:
        patches.undo()
