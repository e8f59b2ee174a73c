"""transformers behind the adapter's `Backend`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import numpy as np

from mlxdiag.errors import UnjudgedError
from mlxdiag.models.adapter import Chooser, LayerSpec
from mlxdiag.models.torch import batching
from mlxdiag.models.torch.held import Held

Caches = list[Any]


class _Torch:
    """See `adapter.Backend`."""

    name = "torch"
    distributions: tuple[str, ...] = ("torch", "transformers")

    merge = staticmethod(batching.merge)
    pad_left = staticmethod(batching.pad_left)
    pad_right = staticmethod(batching.pad_right)
    keep_rows = staticmethod(batching.keep_rows)
    extend = staticmethod(batching.extend)
    extract = staticmethod(batching.extract)
    fed = staticmethod(batching.fed)
    trim = staticmethod(batching.trim)
    trim_some = staticmethod(batching.trim_some)
    evict = staticmethod(batching.evict)
    fork = staticmethod(batching.fork)
    through_a_file = staticmethod(batching.through_a_file)

    def probe(self, sink: Callable[[Any], Any], level: str, attend: Any = None, identity: Any = None) -> Any:
        from mlxdiag.models.torch import layers  # noqa: F401  a probe follows the classes that there are
        from mlxdiag.models.torch.probe import Probe

        return Probe(sink, level, attend, identity=identity)

    def identity(self) -> Any:
        from mlxdiag.models.torch.identity import Identity

        return Identity()

    def read(self, logits: Any, *more: Any) -> np.ndarray[Any, Any]:
        read: np.ndarray[Any, Any] = logits.detach().float().cpu().numpy()
        return read

    def rotation_limit(self, instance: Any) -> int | None:
        from mlxdiag.models.torch.rotation import length_limit

        return length_limit(instance.model)

    @contextmanager
    def shaken(self, instance: Any, step: float, draw: np.random.Generator) -> Iterator[None]:
        import torch

        held = [(value, value.detach().clone()) for value in instance.model.parameters()]
        with torch.no_grad():
            for value, _ in held:
                if value.is_floating_point():
                    signs = torch.from_numpy(
                        draw.integers(0, 2, tuple(value.shape)).astype(np.float32) * 2 - 1
                    )
                    value.mul_((1 + step * signs).to(value))
        try:
            yield
        finally:
            with torch.no_grad():
                for value, before in held:
                    value.copy_(before)

    def as_mask(self, visible: np.ndarray[Any, Any], queries: Any) -> Any:
        """As it is: the probe knows for which implementation it is meant."""
        return visible

    def caller_masks(self, instance: Any, caches: Caches, choose: Chooser) -> AbstractContextManager[None]:
        from mlxdiag.models.torch.inject import caller_masks

        return caller_masks(instance.geometry, choose)

    def cache(self, kind: str, layer: LayerSpec, slack: int, sinks: int) -> Any:
        from transformers.cache_utils import DynamicLayer

        from mlxdiag.models.torch.layers import BufferedSlidingLayer, ClampedSlidingLayer, FrontTrimLayer

        makers: dict[str, Callable[[], Any]] = {
            "dense": DynamicLayer,
            "buffered": lambda: BufferedSlidingLayer(layer.window or 0, slack),
            "clamped": lambda: ClampedSlidingLayer(layer.window or 0),
            "front_trim": FrontTrimLayer,
        }
        if kind not in makers:
            raise UnjudgedError(f"transformers has nothing like a {kind} cache for the {layer.family} layers")
        return makers[kind]()

    def store(self) -> Any:
        raise UnjudgedError("transformers keeps no prompt cache between requests")

    def capped(self, instance: Any, cap: int) -> Caches:
        raise UnjudgedError("transformers has no cap on the keys of a cache")

    def finalize(self, caches: Caches) -> None:
        """Nothing: padding stays where it was fed, and the attention mask goes on to hide it."""

    def is_batch(self, caches: Caches) -> bool:
        """Always: any cache can be cut down to some of its rows."""
        return True

    def quantize(self, caches: Caches, bits: int) -> None:
        """Nothing for a quantised cache, which rounds from its first update on."""
        from transformers import QuantizedCache

        (held,) = caches
        if not isinstance(held.cache, QuantizedCache):
            raise UnjudgedError("transformers has no cache that is quantised in the middle of a sequence")

    def without_cache(self) -> Caches:
        """The caller's mask alone."""
        return [Held(None)]

    def padding_columns(self, caches: Caches, columns: int) -> None:
        (held,) = caches
        held.columns = columns

    @contextmanager
    def in_few_threads(self, instance: Any) -> Iterator[None]:
        """One: two of them wait longer for each other than they compute."""
        import torch

        if not instance.tiny:
            yield
            return
        before = torch.get_num_threads()
        torch.set_num_threads(1)
        try:
            yield
        finally:
            torch.set_num_threads(before)

    def expect_drafts(self, caches: Caches) -> None:
        (held,) = caches
        held.cache.activate_past_recording()

    def evaluate(self, caches: Caches) -> None:
        """Nothing: torch computes at once."""


TORCH = _Torch()
