"""Where faults are planted: the installed library's classes, functions and imports by value."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from types import ModuleType
from typing import Any

import mlx.core as mx
import mlx_lm.models.base as library_base
import mlx_lm.models.cache as library_caches
import numpy as np

from mlxdiag.audit.plants.ground import Ground, Wrap
from mlxdiag.models.mlx.identity import visible_keys
from mlxdiag.replay.parity import Floats

SINGLE = ("KVCache", "RotatingKVCache", "ChunkedKVCache", "QuantizedKVCache")
BATCHES = ("BatchKVCache", "BatchRotatingKVCache")
RINGS = ("RotatingKVCache", "BatchRotatingKVCache")
STATES = ("ArraysCache",)


class Bed(Ground):
    """What faults of mlx-lm are made with."""

    caches = library_caches
    forward = "__call__"

    def probed(self) -> bool:
        return hasattr(mx.fast.scaled_dot_product_attention, "__wrapped__")

    def ids(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        return np.array(args[0] if args else next(iter(kwargs.values())))

    def logits(self, out: Any) -> Floats:
        return np.array(out.astype(mx.float32))

    def function(self, owner: ModuleType, name: str, wrap: Wrap) -> None:
        """Replace a function of the library, also where its modules imported it by value."""
        self.patches.add(owner, name, wrap)
        loaded = [m for key, m in list(sys.modules.items()) if key.startswith("mlx_lm") and m is not owner]
        self.patches.spread(loaded)

    def masks(self, change: Callable[[Any, int, Any], Any]) -> None:
        """Change each boolean mask [.., N, K] that a model builds for N > 1 tokens: `change(mask, N, cache)`.

        "causal" is handed over as the array that it stands for.
        """

        def wrap(original: Callable[..., Any]) -> Callable[..., Any]:
            def create_attention_mask(
                h: Any, cache: Any = None, window_size: int | None = None, return_array: bool = False
            ) -> Any:
                length = h.shape[1]
                if length == 1:
                    return original(h, cache, window_size=window_size, return_array=return_array)
                right = original(h, cache, window_size=window_size, return_array=True)
                wrong = change(right, length, cache)
                self.note(not same(right, wrong, length))
                return wrong

            return create_attention_mask

        self.function(library_base, "create_attention_mask", wrap)

    def attention(self, change: Callable[..., dict[str, Any]]) -> None:
        """Change the arguments of each fused attention call: `change(queries, cache, mask, sinks)` gives
        those that it replaces, by name.
        """

        def wrap(original: Callable[..., Any]) -> Callable[..., Any]:
            def scaled_dot_product_attention(
                queries: Any, keys: Any, values: Any, cache: Any, scale: float, mask: Any, sinks: Any = None
            ) -> Any:
                given = {"queries": queries, "mask": mask, "sinks": sinks}
                given |= change(queries, cache, mask, sinks)
                queries = given.pop("queries")
                return original(queries, keys, values, cache=cache, scale=scale, **given)

            return scaled_dot_product_attention

        self.function(library_base, "scaled_dot_product_attention", wrap)

    def ropes(self, change: Callable[[Any, int, Any], Any]) -> None:
        """Change the offset that the model's RoPE modules are given: `change(module, L, offset)`."""

        def wrap(original: Callable[..., Any]) -> Callable[..., Any]:
            def __call__(module: Any, x: Any, *args: Any, **kwargs: Any) -> Any:
                if args:
                    right, args = args[0], args[1:]
                else:
                    right = kwargs.pop("offset", 0)
                wrong = change(module, x.shape[-2], right)
                self.note(differ(wrong, right))
                return original(module, x, wrong, *args, **kwargs)

            return __call__

        classes = dict.fromkeys(type(module) for _, module in self.instance.model.named_modules())
        for cls in classes:
            if "rope" in cls.__name__.lower() or "rotary" in cls.__name__.lower():
                self.patches.add(cls, "__call__", wrap)


Install = Callable[[Bed], None]
"""Puts a fault in: what a plant is made of."""


def same(right: Any, wrong: Any, length: int) -> bool:
    """Whether two masks for `length` tokens let the same keys be seen."""
    if isinstance(right, mx.array) and isinstance(wrong, mx.array):
        return right.shape == wrong.shape and bool(mx.all(right == wrong).item())
    if not isinstance(right, mx.array) and not isinstance(wrong, mx.array):
        return bool(right == wrong)
    array, other = (right, wrong) if isinstance(right, mx.array) else (wrong, right)
    if array.ndim < 2:
        array = array[None]
    seen = visible_keys(array, 1, length, array.shape[-1])
    meant = visible_keys(other, 1, length, array.shape[-1])
    return seen is not None and meant is not None and bool((seen == meant).all())


def differ(one: Any, other: Any) -> bool:
    """Whether two numbers, or arrays of either library, are not equal in all their elements."""
    return not np.array_equal(np.array(one), np.array(other))


def leaves(caches: Any) -> list[Any]:
    """Every cache of a list, the members of compound ones one by one."""
    return [leaf for cache in caches for leaf in getattr(cache, "caches", (cache,))]
