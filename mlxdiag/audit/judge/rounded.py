"""Keys rounded as a quantised cache rounds them, but held and attended as floats.

What a quantised schedule must give is not what the float one gives. It is this: the same numbers through the
ordinary attention code, so that nothing but rounding errors is left between the two, and a router of a
mixture of experts decides alike on both sides.
"""

from __future__ import annotations

from typing import Any

import mlx.core as mx
from mlx_lm.models.cache import KVCache

from mlxdiag.models.mlx.batching import GROUP


class RoundedKVCache(KVCache):  # type: ignore[misc]
    """A dense cache whose keys and values were quantised and are not any more."""

    def __init__(self, rounding: int) -> None:
        super().__init__()
        self.rounding = rounding

    @classmethod
    def of(cls, cache: KVCache, rounding: int) -> RoundedKVCache:
        """What the cache holds, rounded."""
        made = cls(rounding)
        if cache.keys is not None:
            made.update_and_fetch(*cache.keys_and_values())
        return made

    def update_and_fetch(self, keys: Any, values: Any) -> Any:
        return super().update_and_fetch(rounded(keys, self.rounding), rounded(values, self.rounding))


def rounded(array: mx.array, bits: int) -> mx.array:
    """Quantised and back, `[.., D]` with D a multiple of the group."""
    parts = mx.quantize(array, group_size=GROUP, bits=bits)
    return mx.dequantize(*parts, group_size=GROUP, bits=bits).astype(array.dtype)


def converted(caches: list[Any], bits: int) -> list[Any]:
    """The caches, with those rounded that the library would quantise.

    Raises:
        NotImplementedError: the library refuses to quantise one of them.
    """
    return [_converted(cache, bits) for cache in caches]


def _converted(cache: Any, bits: int) -> Any:
    if not hasattr(cache, "to_quantized"):
        return cache
    if type(cache) is not KVCache:
        raise NotImplementedError(f"{type(cache).__name__} is not quantised")
    return RoundedKVCache.of(cache, bits)
