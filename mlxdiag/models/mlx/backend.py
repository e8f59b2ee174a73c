"""mlx-lm behind the adapter's `Backend`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import numpy as np

from mlxdiag.errors import UnjudgedError
from mlxdiag.models.adapter import USE_LIBRARY, Chooser, LayerSpec
from mlxdiag.models.mlx import batching

Caches = list[Any]


class _Mlx:
    """See `adapter.Backend`."""

    name = "mlx"
    distributions: tuple[str, ...] = ("mlx", "mlx-lm")

    merge = staticmethod(batching.merge)
    pad_left = staticmethod(batching.pad_left)
    pad_right = staticmethod(batching.pad_right)
    finalize = staticmethod(batching.finalize)
    keep_rows = staticmethod(batching.keep_rows)
    extend = staticmethod(batching.extend)
    extract = staticmethod(batching.extract)
    is_batch = staticmethod(batching.is_batch)
    fed = staticmethod(batching.fed)
    trim = staticmethod(batching.trim)
    evict = staticmethod(batching.evict)
    fork = staticmethod(batching.fork)
    through_a_file = staticmethod(batching.through_a_file)
    quantize = staticmethod(batching.quantize)
    evaluate = staticmethod(batching.evaluate)

    def probe(self, sink: Callable[[Any], Any], level: str, attend: Any = None, identity: Any = None) -> Any:
        from mlxdiag.models.mlx.probe import Probe

        return Probe(sink, level, attend, identity=identity)

    def identity(self) -> Any:
        from mlxdiag.models.mlx.identity_deferred import DeferredIdentity

        return DeferredIdentity()

    def read(self, logits: Any, *more: Any) -> np.ndarray[Any, Any]:
        import mlx.core as mx

        mx.eval(logits, *more)
        read: np.ndarray[Any, Any] = np.array(logits.astype(mx.float32))
        return read

    def rotation_limit(self, instance: Any) -> int | None:
        from mlxdiag.models.mlx.rotation import length_limit

        return length_limit(instance.model)

    @contextmanager
    def shaken(self, instance: Any, step: float, draw: np.random.Generator) -> Iterator[None]:
        held = instance.model.parameters()
        instance.model.update(_moved(held, step, draw))
        try:
            yield
        finally:
            instance.model.update(held)

    def as_mask(self, visible: np.ndarray[Any, Any], queries: Any) -> Any:
        import mlx.core as mx

        added = np.where(visible, np.float32(0), np.float32(-np.inf))
        return mx.array(added).astype(queries.dtype)

    def caller_masks(self, instance: Any, caches: Caches, choose: Chooser) -> AbstractContextManager[None]:
        from mlxdiag.models.mlx.inject import caller_masks

        def chooser(h: Any, cache: Any, _window: int | None, _return_array: bool) -> Any:
            layers = instance.layer_of(caches or [], cache)
            spec = instance.geometry.layer(layers[0]) if layers else None
            if spec is None:
                return USE_LIBRARY
            chosen = choose(spec)
            if spec.softmax == "manual" and (chosen is None or isinstance(chosen, str)):
                # What computes its softmax by hand adds an array to the scores.
                q, held = h.shape[1], cache.size()
                shape = (q, held + q)
                chosen = np.ones(shape, bool) if chosen is None else np.tri(*shape, held, dtype=bool)
            return self.as_mask(chosen, h) if isinstance(chosen, np.ndarray) else chosen

        return caller_masks(instance.module, chooser)

    def cache(self, kind: str, layer: LayerSpec, slack: int, sinks: int) -> Any:
        from mlx_lm.models.cache import KVCache

        from mlxdiag.models.mlx.caches import (
            BufferedRotatingKVCache,
            ClampedRotatingKVCache,
            FrontTrimKVCache,
        )

        makers: dict[str, Callable[[], Any]] = {
            "dense": KVCache,
            "buffered": lambda: BufferedRotatingKVCache(layer.window or 0, slack),
            "clamped": lambda: ClampedRotatingKVCache(layer.window or 0),
            "front_trim": lambda: FrontTrimKVCache(sinks),
        }
        if kind not in makers:
            raise UnjudgedError(f"there is no {kind} cache for the {layer.family} layers")
        return makers[kind]()

    def store(self) -> Any:
        from mlxdiag.models.mlx.store import Store

        return Store()

    def capped(self, instance: Any, cap: int) -> Caches:
        return batching.capped(instance.model, cap)

    def trim_some(self, instance: Any, caches: Caches, tokens: int, kept: Mapping[str, int]) -> None:
        for cache in caches:
            layers = instance.layer_of(caches or [], cache)
            spec = instance.geometry.layer(layers[0]) if layers else None
            left = kept.get(spec.family if spec is not None else "", kept.get("", 0))
            if left < tokens and cache.is_trimmable():
                cache.trim(tokens - left)

    def without_cache(self) -> None:
        """Nothing stands in its place: the library then knows of no padding."""

    def padding_columns(self, caches: Caches, columns: int) -> None:
        """Nothing: the library takes no 2-D mask."""

    def in_few_threads(self, instance: Any) -> AbstractContextManager[None]:
        """Nothing: MLX has no number of threads to set."""
        return nullcontext()

    def expect_drafts(self, caches: Caches) -> None:
        """Nothing: the library's caches take back what they can without being told."""


def _moved(tree: Any, step: float, draw: np.random.Generator) -> Any:
    """The parameters with every number multiplied by 1 + or - `step`."""
    import mlx.core as mx

    if isinstance(tree, dict):
        return {name: _moved(part, step, draw) for name, part in tree.items()}
    if isinstance(tree, list):
        return [_moved(part, step, draw) for part in tree]
    if not mx.issubdtype(tree.dtype, mx.floating):
        return tree
    signs = draw.integers(0, 2, tree.shape).astype(np.float32) * 2 - 1
    return tree * (1 + step * mx.array(signs)).astype(tree.dtype)


MLX = _Mlx()
