"""How far a sequence may grow before transformers rotates its tokens by another table."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


def length_limit(model: Any) -> int | None:
    """Tokens up to which a pass of all of them and one in pieces are rotated alike; None: however many.

    The library turns to other frequencies within a forward whose positions reach beyond the original length:
    `longrope` to its long factors, `dynamic` to a base that grows with the length seen. Keys that are cached
    keep the old ones. Source: `dynamic_rope_update` in transformers/modeling_rope_utils.py, 5.24.0.
    """
    limits = (limit for module in model.modules() for limit in _limits(module))
    return min(limits, default=None)


def _limits(module: Any) -> Iterator[int]:
    """Of a rotary module, whose type is one word, or one for each kind of layers."""
    told = getattr(module, "rope_type", None)
    by_kind = told if isinstance(told, dict) else {None: told}
    for kind, word in by_kind.items():
        if word == "longrope":
            yield int(_parameters(module.config, kind)["original_max_position_embeddings"])
        elif isinstance(word, str) and "dynamic" in word:
            # The grown table is put back for lengths below the original one, and not for that length itself.
            yield int(module.original_max_seq_len) - 1


def _parameters(config: Any, kind: str | None) -> Any:
    return config.rope_parameters if kind is None else config.rope_parameters[kind]
