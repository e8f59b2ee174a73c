"""A running model of mlx-lm behind the adapter's interface."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from types import ModuleType
from typing import Any

import msgspec

from mlxdiag.errors import UnjudgedError, UsageError
from mlxdiag.models.adapter import Backend, CacheMaker, Geometry, LayerSpec


class MlxInstance(msgspec.Struct, frozen=True, kw_only=True):
    """See `adapter.Instance`."""

    name: str
    geometry: Geometry
    device: str
    vocab: int
    config: dict[str, Any]
    model: Any
    module: ModuleType
    cache_count: int
    """Caches that the library makes for one sequence."""
    source_layers: tuple[int, ...] = ()
    """For a tiny instance: the layer of the full model that each of its layers stands for."""

    @property
    def backend(self) -> Backend:
        from mlxdiag.models.mlx.backend import MLX

        return MLX

    def new_cache(self, kinds: Mapping[int | str, CacheMaker] | None = None) -> list[Any]:
        from mlx_lm.models.cache import CacheList, make_prompt_cache

        caches: list[Any] = make_prompt_cache(self.model)
        for position in range(len(caches)) if kinds else ():
            layer = self._owner(len(caches), position)
            make = (kinds or {}).get(layer.index) or (kinds or {}).get(layer.family) if layer else None
            if layer is None or make is None:
                continue
            if isinstance(caches[position], CacheList):
                # Compound caches keep their recurrent state first and the attention cache last.
                caches[position] = CacheList(*caches[position].caches[:-1], make(layer))
            else:
                caches[position] = make(layer)
        return caches

    def forward(self, tokens: Any, cache: list[Any] | None) -> Any:
        import mlx.core as mx
        import numpy as np

        if not isinstance(tokens, mx.array):
            ids = np.asarray(tokens)
            if ids.ndim != 2:
                raise UsageError(f"tokens must be [B, L], not {list(ids.shape)}")
            # MLX's gather has no bounds check: an id too large reads, or overwrites, foreign memory.
            if ids.size and not 0 <= int(ids.min()) <= int(ids.max()) < self.vocab:
                raise UsageError(f"token ids must be in [0, {self.vocab}), not {ids.min()}..{ids.max()}")
            tokens = mx.array(ids.astype(np.int32))
        return self.model(tokens, cache=cache)

    def cache_layers(self, position: int) -> tuple[int, ...]:
        owner = self._owner(self.cache_count, position)
        return self.geometry.readers(owner.index) if owner else ()

    def layer_of(self, caches: list[Any], cache: object) -> tuple[int, ...]:
        """As `cache_layers`, found by identity (members of a compound cache included); empty when foreign."""
        for position, held in enumerate(caches):
            if held is cache or any(member is cache for member in getattr(held, "caches", ())):
                owner = self._owner(len(caches), position)
                return self.geometry.readers(owner.index) if owner else ()
        return ()

    def _owner(self, count: int, position: int) -> LayerSpec | None:
        """Owner of the cache at a position: libraries keep one per layer, or one per owning layer."""
        depth = self.geometry.depth
        if count == depth:
            return self.geometry.layer(position)
        owners = self.geometry.owners()
        if count == len(owners):
            return owners[position]
        if count % depth == 0:
            # The stack of layers runs several times, each time with caches of its own.
            return self.geometry.layer(position % depth)
        if count == depth + 1:
            # The first one holds the ids that n-gram embeddings look back to.
            return self.geometry.layer(position - 1) if position else None
        raise UnjudgedError(
            f"{self.name}: the library keeps {count} caches for {len(owners)} layers that own keys"
        )


def cache_count(model: Any) -> int:
    """Caches that the library makes for one sequence of a model."""
    from mlx_lm.models.cache import make_prompt_cache

    return len(make_prompt_cache(model))


def text_module(model: Any) -> ModuleType:
    """The module whose code runs the layers, found through the object that holds them."""
    layers = model.layers
    for _, part in model.named_modules():
        held = part.get("layers") if isinstance(part, dict) else None
        if isinstance(held, list) and len(held) == len(layers) and held and held[0] is layers[0]:
            # A bare container of layers has no forward of its own; its class stands beside the one that has.
            run = type(part).__call__ if "__call__" in dir(type(part)) else type(part)
            return sys.modules[run.__module__]
    return sys.modules[type(layers[0]).__module__]


def device_name() -> str:
    """The device that MLX computes on by default: metal, cuda or cpu."""
    import mlx.core as mx

    if mx.default_device() != mx.gpu:
        return "cpu"
    return "metal" if mx.metal.is_available() else "cuda"
