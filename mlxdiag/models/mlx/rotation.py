"""How far a sequence may grow before mlx-lm rotates its tokens by another base."""

from __future__ import annotations

from typing import Any

DYNAMIC = "DynamicNTKScalingRoPE"
"""The one class of mlx-lm whose base depends on the length: in rope_utils.py, and in internlm3.py, where the
number of heads is taken for that of the new tokens. `SuScaledRoPE` (longrope) has its long factors at any
length, and `DynamicNTKAlphaRoPE` its one base (0.32.2)."""


def length_limit(model: Any) -> int | None:
    """Tokens up to which a pass of all of them and one in pieces are rotated alike; None: however many.

    Beyond it the base follows the length at each forward, and keys that are cached keep the old one.
    """
    heads = int(getattr(getattr(model, "args", None), "num_attention_heads", 0) or 0)
    found = [module for module in model.modules() if type(module).__name__ == DYNAMIC]
    return min((int(module.max_position_embeddings) - heads for module in found), default=None)
