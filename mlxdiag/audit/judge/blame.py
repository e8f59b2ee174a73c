"""The best candidate for the line of the library that is at fault, from what fired and what made it."""

from __future__ import annotations

import importlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from mlxdiag.audit.judge.sites import CALL, MASK, ROPE, STATE, Sites, place
from mlxdiag.models.adapter import Instance

ROLLBACK = frozenset({"MD209"})
TRIM = frozenset({"MD204", "MD205"})
MISSING = frozenset({"MD207", "MD305"})
WINDOW = frozenset({"MD108", "MD212"})
KEYS = frozenset({"MD201", "MD207", "MD208", "MD210", "MD211"})
POSITION = frozenset({"MD203"})


def line(
    instance: Instance,
    codes: Iterable[str],
    step: int | None,
    layers: list[int] | None,
    sites: Sites,
    *,
    trimmed: bool = False,
) -> str:
    """`mlx_lm/models/x.py:n`, or "" where nothing points anywhere.

    Masks are blamed for what a query sees, the cache's own method for keys and trims, the place where a state
    is stored for recurrent models of which only the logits are wrong. `trimmed`: tokens were given back
    before the step, which is to blame for keys that are missing afterwards.
    """
    fired = set(codes)
    if fired & ROLLBACK:
        return _rewinding()
    if fired & TRIM or (trimmed and fired & MISSING and not fired & WINDOW):
        return _method(instance, layers, "trim")
    if fired & KEYS:
        return _method(instance, layers, "update_and_fetch")
    if fired & POSITION and not any(code.startswith("MD3") for code in fired):
        return sites.of(ROPE, step, layers)
    if any(code[:3] in ("MD1", "MD3", "MD5") or code == "MD212" for code in fired):
        return sites.of(MASK, step, layers) or sites.of(CALL, step, layers)
    recurrent = [layer.index for layer in instance.geometry.layers if layer.attention == "recurrent"]
    if recurrent or sites.of(STATE, step, None):
        return sites.of(STATE, step, recurrent)
    return sites.of(MASK, step, layers) or sites.of(CALL, step, layers)


def _method(instance: Instance, layers: list[int] | None, name: str) -> str:
    """The definition of a method of the cache that the first of these layers has."""
    caches = instance.new_cache()
    wanted = set(layers or [])
    for position, cache in enumerate(caches):
        if not wanted or wanted & set(instance.cache_layers(position)):
            for member in getattr(cache, "caches", (cache,)):
                found = _definition(getattr(type(member), name, None))
                if found:
                    return found
    return ""


def _definition(method: Any) -> str:
    code = getattr(method, "__code__", None)
    return place(code.co_filename, code.co_firstlineno) if code is not None else ""


def _rewinding() -> str:
    """Where speculative decoding takes rejected drafts back, without looking at what was taken."""
    path = Path(str(importlib.import_module("mlx_lm.generate").__file__))
    for number, text in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if "trim_prompt_cache(model_cache" in text:
            return place(str(path), number)
    return place(str(path), 1)
