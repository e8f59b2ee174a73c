"""The serving program's side of an attention call: its masks, its caches, and what it does with a misfit."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from msgspec import UNSET

from mlxdiag.models.adapter import Geometry, Instance, LayerSpec
from mlxdiag.replay import masks, misfit
from mlxdiag.replay.ops import CacheChoice, Forward, Unmasked


class Consumer:
    """Applies one misfit policy at every attention call."""

    def __init__(self, policy: str, geometry: Geometry) -> None:
        self.policy = policy
        self.geometry = geometry
        self.decisions: dict[int, misfit.Decision] = {}
        """By id of the attention event; the runner clears it before each forward."""
        self.handed = False
        """Whether the running forward has a caller's mask."""

    def attend(
        self, event: Any, queries: Any, keys: Any, values: Any, mask: Any
    ) -> tuple[Any, Any, Any, str | None, str | None]:
        """The hook of the probe: keys, values and mask to attend with, and what the trace says of them."""
        shape = event.mask
        if shape is UNSET or not isinstance(shape, tuple) or event.k_seen is None:
            return keys, values, mask, None, None
        if shape[-1] == event.k_seen or self.policy == "strict":
            return keys, values, mask, "used" if self.handed else None, None
        spec = self.geometry.layer(event.layer) if event.layer is not None else None
        window = spec.window if spec is not None and spec.attention == "sliding" else None
        try:
            decision = misfit.decide(self.policy, q=event.q, k=event.k_seen, m=shape[-1], window=window)
        except misfit.GuardRaised:
            event.fate = "rejected"
            raise
        self.decisions[id(event)] = decision
        return self._carry_out(decision, queries, keys, values, mask)

    def _carry_out(
        self, decision: misfit.Decision, queries: Any, keys: Any, values: Any, mask: Any
    ) -> tuple[Any, Any, Any, str | None, str | None]:
        import mlx.core as mx

        if decision.keys is not None:
            start, stop = decision.keys
            keys, values = keys[..., start:stop, :], values[..., start:stop, :]
        if decision.mask_columns is not None:
            start, stop = decision.mask_columns
            mask = mask[..., start:stop]
        if decision.unmasked:
            mask = None
        elif decision.mask is not None:
            mask = mx.array(masks.additive(decision.mask)).astype(queries.dtype)
        return keys, values, mask, decision.fate, decision.fallback

    def chooser(self, op: Forward, instance: Instance, caches: list[Any]) -> Callable[..., Any]:
        """For `caller_masks`: the masks of the op for their own families, the library's for the rest."""
        from mlxdiag.models.mlx.inject import USE_LIBRARY

        def choose(h: Any, cache: Any, _window: int | None, _return_array: bool) -> Any:
            import mlx.core as mx

            layers = instance.layer_of(caches, cache)
            spec = instance.geometry.layer(layers[0]) if layers else None
            for given in op.unmasked:
                if spec is not None and given.family in (None, spec.family):
                    return _plain(given, spec, h, cache)
            for caller in op.callers:
                if spec is not None and caller.family in (None, spec.family):
                    built = masks.build(
                        caller.builder, caller.shape[0], caller.offset, real=caller.real, width=caller.window
                    )
                    return mx.array(masks.additive(built)).astype(h.dtype)
            return USE_LIBRARY

        return choose

    def makers(self, chosen: Mapping[str, CacheChoice]) -> dict[int | str, Callable[[LayerSpec], Any]]:
        """Constructors for the families that do not run on the library's own cache."""
        return {family: _maker(choice) for family, choice in chosen.items()}


def _plain(given: Unmasked, spec: LayerSpec, h: Any, cache: Any) -> Any:
    """No mask, or "causal"; as an array for layers that compute their softmax by hand."""
    if spec.softmax != "manual":
        return "causal" if given.causal else None
    import mlx.core as mx

    q, held = h.shape[1], cache.size()
    built = masks.causal(q, held) if given.causal else np.ones((q, held + q), dtype=bool)
    return mx.array(masks.additive(built)).astype(h.dtype)


def _maker(choice: CacheChoice) -> Callable[[LayerSpec], Any]:
    def make(layer: LayerSpec) -> Any:
        from mlx_lm.models.cache import KVCache

        from mlxdiag.models.mlx.caches import (
            BufferedRotatingKVCache,
            ClampedRotatingKVCache,
            FrontTrimKVCache,
        )

        if choice.kind == "buffered":
            return BufferedRotatingKVCache(layer.window or 0, choice.slack)
        if choice.kind == "clamped":
            return ClampedRotatingKVCache(layer.window or 0)
        return FrontTrimKVCache(choice.sinks) if choice.kind == "front_trim" else KVCache()

    return make
