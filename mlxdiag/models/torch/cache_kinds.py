"""The caches that a program of transformers can choose beside the dynamic one."""

from __future__ import annotations

from typing import Any

MOST = 64
"""Tokens that a static cache holds. A static layer with a window holds no more than that."""


def fresh(kind: str, config: Any) -> Any | None:
    """A cache of this kind: static, or quantized to 8-bit floats, which needs no other package. None for
    "dynamic", which `generate` makes by itself.

    Raises what the library raises for a model that it makes no such cache for.
    """
    from transformers import QuantizedCache, StaticCache

    if kind == "static":
        return StaticCache(config=config, max_cache_len=MOST)
    if kind == "quantized":
        return QuantizedCache(backend="fp8", config=config)
    return None
