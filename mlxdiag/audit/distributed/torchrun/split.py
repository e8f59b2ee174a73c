"""One checkpoint, loaded whole and loaded as a rank's part, by transformers' own loader."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from mlxdiag.audit.distributed.launch import RANKS
from mlxdiag.audit.distributed.told import PIPELINE, TENSOR
from mlxdiag.models.torch import library
from mlxdiag.models.torch.families import EXPERTS
from mlxdiag.models.torch.geometry import per_layer
from mlxdiag.models.torch.instance import TorchInstance


def save(instance: TorchInstance, folder: Path) -> None:
    """Write the checkpoint as `save_pretrained` does."""
    with library.quiet():
        instance.model.save_pretrained(folder)


def whole(instance: TorchInstance, folder: Path) -> TorchInstance:
    """The instance with the weights of the checkpoint, all of them in this process."""
    return _loaded(instance, folder)


HOW: dict[str, dict[str, Any]] = {TENSOR: {"tp_plan": "auto"}, PIPELINE: {"pp_size": RANKS}}
"""By kind: the fields of the library's `DistributedConfig`."""


def part(instance: TorchInstance, folder: Path, kind: str) -> TorchInstance:
    """The instance with this rank's part of the weights: of each layer, by the model's own plan, or some of
    the layers.

    Raises whatever `from_pretrained` raises.
    """
    from transformers.distributed import DistributedConfig

    return _loaded(instance, folder, distributed_config=DistributedConfig(**HOW[kind]))


def refusal(instance: TorchInstance, kind: str) -> str | None:
    """Why the library would not split this model over the ranks; None where it would.

    For heads it raises where there is no plan. That heads do not divide it knows as well, in
    `get_kv_heads_per_rank`, but loads such a model all the same, and fails in the first forward. For layers
    it asks nothing, though plans say what can be handed on.
    """
    return _whole_layers(instance) if kind == PIPELINE else _whole_heads(instance.model)


def _whole_layers(instance: TorchInstance) -> str | None:
    name = type(instance.model).__name__
    if not instance.model.supports_pp_plan:
        return f"{name} has no pipeline plan (base_model_pp_plan), so it is not split"
    if instance.head is not None:
        return f"{name} makes no logits, which is what the last stage of a pipeline hands on"
    return None


def _whole_heads(model: Any) -> str | None:
    from transformers.distributed.tensor_parallel import get_kv_heads_per_rank

    if not model.supports_tp_plan:
        return f"{type(model).__name__} has no tensor-parallel plan (base_model_tp_plan), so it is not split"
    heads = key_heads(model.config)
    if heads and get_kv_heads_per_rank(model.tp_plan, heads, RANKS) is None:
        odd = next(count for count in heads if count % RANKS)
        return f"the plan splits key heads, and {odd} of them cannot be shared out to {RANKS} processes"
    return None


def key_heads(config: Any) -> list[int]:
    """Key heads of each layer that says how many it has."""
    layers = per_layer(config.get_text_config(decoder=True))
    found = (getattr(layer, "num_key_value_heads", None) for layer in layers)
    return [count for count in found if isinstance(count, int) and count > 0]


def weights(model: Any) -> int:
    """Numbers in the parameters that this process holds."""
    return sum((p.to_local() if hasattr(p, "to_local") else p).numel() for p in model.parameters())


def _loaded(instance: TorchInstance, folder: Path, **given: Any) -> TorchInstance:
    import torch

    with library.quiet():
        model = type(instance.model).from_pretrained(
            str(folder),
            dtype=torch.float32,
            local_files_only=True,
            use_safetensors=True,
            attn_implementation=instance.attention,
            **given,
        )
        if model._can_set_experts_implementation():
            model.set_experts_implementation(EXPERTS)
    made: TorchInstance = msgspec.structs.replace(instance, model=model.eval())
    return made
