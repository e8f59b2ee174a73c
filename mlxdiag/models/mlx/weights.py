"""Random weights under which every path shows: attention is sharp, and nothing that starts constant stays so."""

from __future__ import annotations

import hashlib
from typing import Any

SHARPEN = 3.0
"""Factor on the queries. With plain 1/sqrt(fan_in) weights a row of softmax over hundreds of keys is nearly
flat, and one key more or less would drown in rounding."""

_QUERY_NORMS = ("q_norm", "query_norm", "q_layernorm", "query_layernorm")
_QUERIES = ("q_proj", "wq", "W_pack", "qkv_proj", "query_key_value", "c_attn", "Wqkv", "q_b_proj")


def randomise(model: Any, seed: int, dtype: Any) -> None:
    """Overwrite every parameter in place. The same seed and parameter names give the same values.

    Matrices are normal with 1/sqrt(fan_in), embeddings normal, vectors that the library starts at a constant c are
    spread around it (c = 0: normal of 0.3), vectors that it starts otherwise are kept.
    """
    import mlx.core as mx
    import mlx.nn as nn
    from mlx.utils import tree_flatten, tree_unflatten

    embeddings = {
        f"{path}.weight" for path, module in model.named_modules() if isinstance(module, nn.Embedding)
    }
    parameters = dict(tree_flatten(model.parameters()))
    normed = any(name.split(".")[-2] in _QUERY_NORMS for name in parameters if "." in name)
    values = []
    for name, value in parameters.items():
        if not mx.issubdtype(value.dtype, mx.floating):
            values.append((name, value))
            continue
        noise = mx.random.normal(value.shape, key=mx.random.key(_seed(seed, name)))
        drawn = noise if name in embeddings else _draw(value, noise)
        values.append((name, (drawn * _gain(name, normed)).astype(dtype)))
    model.update(tree_unflatten(values))


def _draw(value: Any, noise: Any) -> Any:
    import mlx.core as mx

    constant = value.reshape(-1)[0].item()
    is_constant = bool(mx.all(value == constant).item())
    if is_constant and (value.ndim == 1 or constant != 0.0):
        return 0.3 * noise if constant == 0.0 else constant * (1.0 + 0.1 * noise)
    if value.ndim == 1:
        return value
    fan_in = value.shape[-1] if value.ndim == 2 else _fan_in(value.shape)
    return noise * fan_in**-0.5


def _fan_in(shape: tuple[int, ...]) -> int:
    """Experts [E, out, in] and convolutions [out, k, in/groups]: a short last axis is a depthwise kernel's."""
    return shape[-1] if shape[-1] > 8 else max(shape[-1] * shape[-2], 1)


def _gain(name: str, normed: bool) -> float:
    parts = name.split(".")
    if parts[-1] != "weight" or len(parts) < 2:
        return 1.0
    return SHARPEN if parts[-2] in (_QUERY_NORMS if normed else _QUERIES) else 1.0


def _seed(seed: int, name: str) -> int:
    return int.from_bytes(hashlib.sha256(f"{seed}:{name}".encode()).digest()[:8], "little")
