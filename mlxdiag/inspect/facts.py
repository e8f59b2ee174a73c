"""What a layer family is, from the model's config; the defaults that let a hand-written trace be judged."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from mlxdiag.traces.types import ATTENTION_KINDS, Entry, Model

DEFAULT_CACHE = {"full": "dense", "sliding": "rotating", "chunked": "chunked", "recurrent": "recurrent"}
"""The cache that a layer kind has when the trace does not name one."""

ROTATING = ("rotating", "batch_rotating", "buffered")
"""Caches that hold a bounded window of keys."""
BATCHED = ("batch", "batch_rotating")
"""Caches with one cursor for all rows, per-row positions behind left padding."""

_WINDOW_FIELD = {"sliding": "sliding_window", "chunked": "attention_chunk_size"}


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """A family as the config says it is; `None` where nothing says it."""

    kind: str | None = None
    """full, sliding, chunked or recurrent."""
    cache: str | None = None
    window: int | None = None
    """Of the attention: the query counts itself. None on full layers."""
    keep: int = 0
    slack: int = 0
    sinks: bool = False
    declared: bool = False
    """The model entry names this family, so a call can be compared with it."""


def derive(model: Entry | Model | None, family: str | None) -> Facts:
    """Facts of `family`; without a model entry the family's own name is all there is ("sliding", "full")."""
    config: Mapping[str, Any] = (model.config if model else None) or {}
    layers = (model.layers if model else None) or {}
    if family is None and len(layers) == 1:
        family = next(iter(layers))
    known = layers.get(family) if family else None
    if known is None:
        kind = family if family in ATTENTION_KINDS else None
        return Facts(kind=kind, cache=DEFAULT_CACHE.get(kind or ""), window=_configured(config, kind))
    kind = known.attention or (family if family in ATTENTION_KINDS else None)
    if kind is None:
        kind = "full" if known.window is None else "sliding"
    return Facts(
        kind=kind,
        cache=known.cache or DEFAULT_CACHE[kind],
        window=known.window if known.window is not None else _configured(config, kind),
        keep=known.keep or 0,
        slack=known.slack or 0,
        sinks=bool(known.sinks),
        declared=True,
    )


def looks_ahead(config: Mapping[str, Any] | None) -> bool:
    """Whether a config, or that of its text part, says that all queries attend to later tokens."""
    config = config or {}
    for part in (config, config.get("text_config")):
        if isinstance(part, Mapping) and (
            part.get("use_bidirectional_attention") in (True, "all") or part.get("is_causal") is False
        ):
            return True
    return False


def _configured(config: Mapping[str, Any], kind: str | None) -> int | None:
    """The window that the config gives to layers of this kind; wrappers keep it under `text_config`."""
    name = _WINDOW_FIELD.get(kind or "")
    if name is None:
        return None
    nested = config.get("text_config")
    value = config.get(name) or (nested.get(name) if isinstance(nested, Mapping) else None)
    return value if isinstance(value, int) and value > 0 else None
