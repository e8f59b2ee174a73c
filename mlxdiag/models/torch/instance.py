"""A running model of transformers behind the adapter's interface."""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Mapping
from functools import cached_property
from types import ModuleType
from typing import Any

import msgspec

from mlxdiag.errors import UnjudgedError, UsageError
from mlxdiag.models.adapter import Backend, CacheMaker, Geometry
from mlxdiag.models.torch import cache_kinds
from mlxdiag.models.torch.families import CACHES
from mlxdiag.models.torch.held import Held


class TorchInstance(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """See `adapter.Instance`. Its list of caches holds one `Held`, whose cache serves every layer."""

    name: str
    geometry: Geometry
    device: str
    vocab: int
    config: dict[str, Any]
    model: Any
    module: ModuleType
    attention: str
    """Name of the attention implementation: sdpa, eager, ..."""
    head: Any = None
    """[V, D], for a bare model: hidden states are projected on it."""
    cache_kind: str = "dynamic"
    """Which of the library's caches `new_cache` makes: see `cache_kinds`."""
    tiny: bool = False
    """Made here, of small sizes and random weights; a checkpoint is not."""
    source_layers: tuple[int, ...] = ()
    """For a tiny instance: the layer of the full model that each of its layers stands for."""

    @property
    def backend(self) -> Backend:
        from mlxdiag.models.torch.backend import TORCH

        return TORCH

    def new_cache(self, kinds: Mapping[int | str, CacheMaker] | None = None) -> list[Any]:
        """One `Held` with the library's own cache for the model's config, of `cache_kind`.

        `kinds` replaces the cache layer of a layer (by index) or of a family (by name); the index wins.
        Raises UnjudgedError where the library's cache has no layers yet that could be replaced.
        """
        cache = cache_kinds.fresh(self.cache_kind, self.model.config) or _cache(self)
        for layer in self.geometry.owners() if kinds else ():
            make = (kinds or {}).get(layer.index) or (kinds or {}).get(layer.family)
            if make is None:
                continue
            if layer.index >= len(cache.layers):
                raise UnjudgedError(f"{self.name}: {type(cache).__name__} makes its layers by itself")
            cache.layers[layer.index] = make(layer)
        return [Held(cache)]

    def forward(self, tokens: Any, cache: list[Any] | None) -> Any:
        """Logits [B, L, V] as a torch tensor, without gradients.

        With a cache, the mask and the positions are passed that `generate` would pass. Raises UsageError for
        an id outside the vocabulary and for caches that are not this instance's.
        """
        import torch

        ids = torch.as_tensor(tokens, dtype=torch.long, device=self.model.device)
        if ids.ndim != 2:
            raise UsageError(f"tokens must be [B, L], not {list(ids.shape)}")
        # A gather on a GPU does not raise for an id that is too large: it ends the process's device.
        if ids.numel() and not 0 <= int(ids.min()) <= int(ids.max()) < self.vocab:
            raise UsageError(
                f"token ids must be in [0, {self.vocab}), not {int(ids.min())}..{int(ids.max())}"
            )
        held = None if cache is None else _held(cache)
        given = {} if held is None else self._told(held, ids)
        with torch.no_grad():
            out = self.model(input_ids=ids, use_cache="cache" in given, **given)
            if self.head is None:
                return out.logits
            return out.last_hidden_state @ self.head.T

    def cache_layers(self, position: int) -> tuple[int, ...]:
        """Every layer: one object serves them all."""
        return tuple(layer.index for layer in self.geometry.layers) if position == 0 else ()

    def _told(self, held: Held, ids: Any) -> dict[str, Any]:
        import torch

        mask, positions = held.advance(*ids.shape)
        told: dict[str, Any] = {} if held.cache is None else {"cache": held.cache}
        if mask is not None:
            told["attention_mask"] = torch.from_numpy(mask).long().to(ids.device)
        if self._takes_positions:
            told["position_ids"] = torch.from_numpy(positions).to(ids.device)
        return told

    @cached_property
    def _takes_positions(self) -> bool:
        return "position_ids" in inspect.signature(self.model.forward).parameters


def of_model(
    model: Any,
    *,
    name: str,
    geometry: Geometry,
    device: str,
    head: Any = None,
    tiny: bool = False,
    source_layers: tuple[int, ...] = (),
) -> TorchInstance:
    """Wrap a model that stands on its device, in evaluation mode."""
    text = model.config.get_text_config(decoder=True)
    return TorchInstance(
        name=name,
        geometry=geometry,
        device=device,
        vocab=int(model.get_input_embeddings().weight.shape[0]),
        config=model.config.to_dict(),
        model=model,
        module=sys.modules[type(model).__module__],
        attention=str(text._attn_implementation),
        head=head,
        tiny=tiny,
        source_layers=source_layers,
    )


def _cache(instance: TorchInstance) -> Any:
    """The cache that `generate` would make, or the one of its own that a family insists on.

    Raises UnjudgedError where the library makes none of the config: some of its fields are read here first.
    """
    config = instance.model.config
    own = CACHES.get(str(config.model_type))
    if own is not None:
        return getattr(importlib.import_module(f"transformers.models.{own[0]}.modeling_{own[0]}"), own[1])()
    from transformers import DynamicCache

    try:
        return DynamicCache(config=config)
    except Exception as error:  # a config may lack anything, in any way
        said = f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
        raise UnjudgedError(f"{instance.name}: the library makes no cache for its config: {said}") from error


def _held(caches: list[Any]) -> Held:
    if len(caches) != 1 or not isinstance(caches[0], Held):
        raise UsageError("caches must come from this instance's new_cache")
    return caches[0]
