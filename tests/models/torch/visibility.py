"""Which positions each layer of a running model really looks at, found by its gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

LENGTH = 29


def ids(seed: int = 0, rows: int = 1, length: int = LENGTH) -> Any:
    return np.random.default_rng(seed).integers(3, 512, (rows, length))


def decoder_layers(instance: Any) -> Any:
    """The list of layers, found by its length."""
    depth = instance.geometry.depth
    return next(
        module
        for module in instance.model.modules()
        if isinstance(module, torch.nn.ModuleList)
        and len(module) == depth
        and any(word in type(module[0]).__name__ for word in ("Layer", "Block"))
    )


def visible(instance: Any, position: int = LENGTH - 1) -> list[set[int]]:
    """For each decoder layer, the input positions on which its output at `position` depends."""
    passed: dict[int, tuple[Any, Any]] = {}
    handles = []
    for index, layer in enumerate(decoder_layers(instance)):
        handles += _watch(layer, index, passed)
    try:
        tokens = torch.as_tensor(ids(length=position + 1), device=instance.model.device)
        instance.model(input_ids=tokens, use_cache=False)
    finally:
        for handle in handles:
            handle.remove()
    return [_seen(*passed[index], position) for index in sorted(passed)]


def _watch(layer: Any, index: int, passed: dict[int, tuple[Any, Any]]) -> list[Any]:
    entered: list[Any] = []

    def enter(module: Any, args: Any, kwargs: Any) -> Any:
        hidden = args[0] if args else kwargs["hidden_states"]
        fresh = hidden.detach().requires_grad_(True)
        entered.append(fresh)
        return ((fresh, *args[1:]), kwargs) if args else (args, {**kwargs, "hidden_states": fresh})

    def leave(module: Any, args: Any, kwargs: Any, output: Any) -> None:
        passed[index] = (entered[-1], output[0] if isinstance(output, tuple) else output)

    return [
        layer.register_forward_pre_hook(enter, with_kwargs=True),
        layer.register_forward_hook(leave, with_kwargs=True),
    ]


def _seen(entered: Any, left: Any, position: int) -> set[int]:
    length = position + 1
    row = left.movedim(left.shape.index(length), 0)[position]
    weights = torch.linspace(0.5, 1.5, row.numel(), device=row.device).reshape(row.shape)
    (slope,) = torch.autograd.grad((row * weights).sum(), entered, retain_graph=True)
    by_position = slope.abs().movedim(slope.shape.index(length), 0).reshape(length, -1).amax(-1)
    return {int(index) for index in torch.nonzero(by_position > 0).reshape(-1)}


def moved_by_positions(instance: Any) -> list[bool]:
    """For each layer, whether its output on a fixed input changes once positions lie twice as far apart."""
    once, twice = (_outputs(instance, factor) for factor in (1, 2))
    return [bool((once[index] - twice[index]).abs().max() > 1e-4) for index in sorted(once)]


def _outputs(instance: Any, factor: int) -> dict[int, Any]:
    left: dict[int, Any] = {}
    handles = []
    for index, layer in enumerate(decoder_layers(instance)):
        handles += _feed_noise(layer, index, left)
    tokens = torch.as_tensor(ids())
    try:
        with torch.no_grad():
            instance.model(
                input_ids=tokens,
                # Without a mask, positions with gaps would be taken for several sequences in one row.
                attention_mask=torch.ones_like(tokens),
                position_ids=torch.arange(LENGTH)[None] * factor,
                use_cache=False,
            )
    finally:
        for handle in handles:
            handle.remove()
    return left


def _feed_noise(layer: Any, index: int, left: dict[int, Any]) -> list[Any]:
    def enter(module: Any, args: Any, kwargs: Any) -> Any:
        hidden = args[0] if args else kwargs["hidden_states"]
        noise = torch.randn(hidden.shape, generator=torch.Generator().manual_seed(index))
        return ((noise, *args[1:]), kwargs) if args else (args, {**kwargs, "hidden_states": noise})

    def leave(module: Any, args: Any, kwargs: Any, output: Any) -> None:
        left[index] = output[0] if isinstance(output, tuple) else output

    return [
        layer.register_forward_pre_hook(enter, with_kwargs=True),
        layer.register_forward_hook(leave, with_kwargs=True),
    ]
