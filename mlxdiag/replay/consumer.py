"""The serving program's side of an attention call: its masks, its caches, and what it does with a misfit."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from msgspec import UNSET

from mlxdiag.models.adapter import USE_LIBRARY, Backend, Chooser, Geometry, LayerSpec
from mlxdiag.replay import masks, misfit
from mlxdiag.replay.ops import CacheChoice, Forward


class Consumer:
    """Applies one misfit policy at every attention call."""

    def __init__(self, policy: str, geometry: Geometry, library: Backend) -> None:
        self.policy = policy
        self.geometry = geometry
        self.library = library
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
        if decision.keys is not None:
            start, stop = decision.keys
            keys, values = keys[..., start:stop, :], values[..., start:stop, :]
        if decision.mask_columns is not None:
            start, stop = decision.mask_columns
            mask = mask[..., start:stop]
        if decision.unmasked:
            mask = None
        elif decision.mask is not None:
            mask = self.library.as_mask(decision.mask, queries)
        return keys, values, mask, decision.fate, decision.fallback

    def chooser(self, op: Forward) -> Chooser:
        """For `Backend.caller_masks`: the op's masks for their own families, the library's for the rest."""

        def choose(layer: LayerSpec) -> Any:
            for given in op.unmasked:
                if given.family in (None, layer.family):
                    return "causal" if given.causal else None
            for caller in op.callers:
                if caller.family in (None, layer.family):
                    return masks.build(
                        caller.builder, caller.shape[0], caller.offset, real=caller.real, width=caller.window
                    )
            return USE_LIBRARY

        return choose

    def makers(self, chosen: Mapping[str, CacheChoice]) -> dict[int | str, Callable[[LayerSpec], Any]]:
        """Constructors for the families that do not run on the library's own cache."""

        def maker(choice: CacheChoice) -> Callable[[LayerSpec], Any]:
            return lambda layer: self.library.cache(choice.kind, layer, choice.slack, choice.sinks)

        return {family: maker(choice) for family, choice in chosen.items()}
