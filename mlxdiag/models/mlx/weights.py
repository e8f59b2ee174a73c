"""Random weights under which every path shows: attention is sharp, and nothing stays constant."""

from __future__ import annotations

import hashlib
from typing import Any

from mlxdiag.models.configs.draws import QUERY_NORMS, Draw, sharpness


def randomise(model: Any, draw: Draw, seed: int, dtype: Any) -> None:
    """Overwrite every parameter in place. The same seed and parameter names give the same values.

    Matrices are normal with 1/sqrt(fan_in), embeddings normal; vectors that the library starts at a constant
    are spread around it (by 0.3 around 0), others are kept.
    """
    import mlx.core as mx
    import mlx.nn as nn
    from mlx.utils import tree_flatten, tree_unflatten

    embeddings = {
        f"{path}.weight" for path, module in model.named_modules() if isinstance(module, nn.Embedding)
    }
    parameters = dict(tree_flatten(model.parameters()))
    normed = any(_owner(name) in QUERY_NORMS for name in parameters)
    values = []
    for name, value in parameters.items():
        key = mx.random.key(_seed(seed, name))
        if not mx.issubdtype(value.dtype, mx.floating):
            values.append((name, _packed(value, key)))
            continue
        noise = mx.random.normal(value.shape, key=key)
        if name in embeddings:
            drawn = noise * (value.shape[-1] ** -0.5 if draw.scaled_embedding else 1.0)
        else:
            drawn = _value(value, noise, draw.vectors.get(name.split(".")[-1]))
        if name.endswith(".weight"):
            drawn = drawn * sharpness(_owner(name), normed, draw.query)
        values.append((name, drawn.astype(dtype)))
    model.update(tree_unflatten(values))


def _packed(value: Any, key: Any) -> Any:
    """Quantised weights are random bits; other integers are indexes, and are kept."""
    import mlx.core as mx

    if value.dtype not in (mx.uint8, mx.uint32):
        return value
    # Drawn by halves: wider ranges lose their low bits to a float on the way.
    high, low = mx.random.randint(0, 1 << 16, (2, *value.shape), dtype=mx.uint32, key=key)
    return (high * (1 << 16) + low).astype(value.dtype)


def _value(start: Any, noise: Any, mean: float | None) -> Any:
    import mlx.core as mx

    constant = start.reshape(-1)[0].item()
    is_constant = bool(mx.all(start == constant).item())
    if mean is not None:
        return mean + 0.3 * noise
    if is_constant and (start.ndim == 1 or constant != 0.0):
        return 0.3 * noise if constant == 0.0 else constant * (1.0 + 0.1 * noise)
    if start.ndim == 1:
        return start
    return noise * (start.shape[-1] if start.ndim == 2 else _fan_in(start.shape)) ** -0.5


def _fan_in(shape: tuple[int, ...]) -> int:
    """Experts [E, out, in], convolutions [out, k, in/groups]: a short last axis is a depthwise kernel's."""
    return shape[-1] if shape[-1] > 8 else max(shape[-1] * shape[-2], 1)


def _owner(name: str) -> str:
    """The module that a parameter belongs to."""
    return name.split(".")[-2] if "." in name else ""


def _seed(seed: int, name: str) -> int:
    return int.from_bytes(hashlib.sha256(f"{seed}:{name}".encode()).digest()[:8], "little")
