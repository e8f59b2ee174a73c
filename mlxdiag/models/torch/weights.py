"""Random weights under which every path shows: attention is sharp, and nothing stays constant."""

from __future__ import annotations

import hashlib
from typing import Any

from mlxdiag.models.configs.draws import QUERY_NORMS, Draw, sharpness


def randomise(model: Any, draw: Draw, seed: int) -> None:
    """Overwrite every parameter in place. The same seed and parameter names give the same values.

    Matrices are normal with 1/sqrt(fan_in), embeddings normal; vectors that the library starts at a constant
    are spread around it (by 0.3 around 0), others are kept. Values are drawn on the CPU.
    """
    import torch

    embeddings = {id(module.weight) for module in model.modules() if isinstance(module, torch.nn.Embedding)}
    transposed = {
        id(value)
        for module in model.modules()
        if getattr(module, "is_transposed", False)
        for value in module.parameters(recurse=False)
    }
    parameters = dict(model.named_parameters())
    normed = any(_owner(name) in QUERY_NORMS for name in parameters)
    with torch.no_grad():
        for name, value in parameters.items():
            noise = torch.randn(value.shape, generator=_generator(seed, name), dtype=torch.float32)
            if id(value) in embeddings:
                drawn = noise * (value.shape[-1] ** -0.5 if draw.scaled_embedding else 1.0)
            else:
                mean = draw.vectors.get(name.split(".")[-1])
                start = value.float().cpu()
                if draw.one_more and name.endswith(".weight") and not bool(start.any()):
                    mean, noise = 1.0, noise / 3
                drawn = _value(start, noise, mean, id(value) in transposed)
            if name.endswith(".weight"):
                drawn = drawn * sharpness(_owner(name), normed, draw.query)
            value.copy_(drawn)


def _value(start: Any, noise: Any, mean: float | None, transposed: bool) -> Any:
    import torch

    if mean is not None:
        return mean + 0.3 * noise
    constant = start.reshape(-1)[0]
    is_constant = bool((start == constant).all())
    if not bool(torch.isfinite(start).all()):
        # Memory that the library's own initialisation leaves as it was.
        is_constant, constant = start.ndim == 1, torch.zeros(())
    if is_constant and (start.ndim == 1 or constant != 0.0):
        return 0.3 * noise if constant == 0.0 else constant * (1.0 + 0.1 * noise)
    if start.ndim <= 1:
        return start
    return noise * _fan_in(tuple(start.shape), transposed) ** -0.5


def _fan_in(shape: tuple[int, ...], transposed: bool) -> int:
    """Matrices [out, in], experts [E, out, in] (or [E, in, out]), convolutions [out, in/groups, k]."""
    if len(shape) < 3:
        return max(shape[-2 if transposed else -1], 1)
    if shape[-1] <= 8:
        return max(shape[-1] * shape[-2], 1)
    return shape[-2 if transposed else -1]


def _owner(name: str) -> str:
    """The module that a parameter belongs to."""
    return name.split(".")[-2] if "." in name else ""


def _generator(seed: int, name: str) -> Any:
    import torch

    digest = hashlib.sha256(f"{seed}:{name}".encode()).digest()
    return torch.Generator().manual_seed(int.from_bytes(digest[:8], "little") >> 1)
