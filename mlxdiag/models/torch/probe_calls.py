"""Wrappers of `Cache.update` and of the attention functions.

At the shapes level no tensor is read, and calls are kept in short (`events.Update`, `Call`): plain tuples,
which are equal for layers whose calls were equal. A watcher reads what a call is given, and may replace it.

What may fail here is the probe's alone: the original is called whatever happens, unless a fault is to be
raised (`Local.fault`).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import torch

from mlxdiag.models.events import AttentionEvent, Offset, Update, event_of_update
from mlxdiag.models.torch import probe_masks, probe_rows
from mlxdiag.models.torch.probe_effect import OLDEST, OPAQUE, WINDOWED, Effect, effect_of
from mlxdiag.models.torch.probe_frame import Frame, Local
from mlxdiag.models.torch.probe_functions import kind_of
from mlxdiag.models.torch.probe_tags import FRESH, OnCopy, tag_of
from mlxdiag.models.torch.probe_watcher import Watcher

Wrapper = Callable[..., Any]


def update_wrapper(original: Wrapper, local: Local, on_copy: OnCopy, watcher: Watcher | None) -> Wrapper:
    """For `Cache.update` and what overrides it."""

    def update(
        cache: Any, key_states: Any, value_states: Any, layer_idx: int, *args: Any, **kwargs: Any
    ) -> Any:
        # Asked first: what follows is nothing that a compiler could trace.
        if torch.compiler.is_compiling():
            return original(cache, key_states, value_states, layer_idx, *args, **kwargs)
        frame = local.frame
        if frame is None or frame.busy or key_states is None:
            return original(cache, key_states, value_states, layer_idx, *args, **kwargs)
        try:
            short = _before(frame, cache, key_states, layer_idx, on_copy, watcher)
            event = event_of_update(short) if watcher is not None else None
            if event is not None and watcher is not None:
                key_states = watcher.inserting(frame, event, key_states)
        except Exception as error:  # noqa: BLE001
            local.failed(error)
            return original(cache, key_states, value_states, layer_idx, *args, **kwargs)
        frame.busy = True
        try:
            returned = original(cache, key_states, value_states, layer_idx, *args, **kwargs)
        except BaseException:
            frame.step.calls.append(event or event_of_update(short))
            raise
        finally:
            frame.busy = False
        try:
            _after(frame, cache, short, event, returned[0])
        except Exception as error:  # noqa: BLE001
            local.failed(error)
        return returned

    return update


def _before(
    frame: Frame, cache: Any, keys: Any, index: int, on_copy: OnCopy, watcher: Watcher | None
) -> Update:
    """The state of a layer's cache before it is given `keys` [B, H, L, D]."""
    frame.layer = index
    layers = cache.layers
    layer: Any = layers[index] if index < len(layers) else None
    batch, _, q, _ = keys.shape
    if layer is None:
        # Made by the call itself, as a copy of one class; what it is, is seen afterwards.
        tag, counters = None, FRESH
    else:
        tag = tag_of(layer, index, on_copy)
        tag.model = frame.step.model
        counters = tag.read(layer)
    if id(cache) not in frame.left:
        frame.caches += [cache] if all(known is not cache for known in frame.caches) else []
        feeding = watcher.feeding() if watcher is not None else None
        frame.left[id(cache)] = probe_rows.follow(cache, counters[1], batch, frame.given, feeding)
        frame.step.right_padding = probe_rows.ends(cache, counters[1], q, batch, frame.given)
    left = frame.left[id(cache)]
    alike: Any = tag.alike if tag is not None else None
    if tag is not None and tag.kind == "rotating" and layer.record_past:
        # What it keeps beyond its window it can give back.
        alike = (*alike[:3], max((counters[3] or 0) + q - (tag.alike[1] or 0) + 1, 0), alike[4])
    if left is None or any(left):
        alike = tag.ragged if tag is not None else None
        counters, left = _by_row(counters, left)
    else:
        left = None
    return (index, tag, left, (alike, counters, q, None, None, None))


def _by_row(counters: Any, left: list[int] | None) -> tuple[Any, list[int] | None]:
    """Offsets of rows behind left padding, and how much of it the layer still holds."""
    _, cursor, start, live, buffer = counters
    if left is None or cursor is None:
        return (None, cursor, start, live, buffer), left
    offsets: Offset = [cursor - n for n in left]
    return (offsets, cursor, start, live, buffer), [n - (start or 0) for n in left]


def _after(frame: Frame, cache: Any, short: Update, event: AttentionEvent | None, held: Any) -> None:
    k = int(held.shape[2])
    index, tag, left, (alike, counters, q, _, rope, vectors) = short
    if tag is None:
        tag = tag_of(cache.layers[index], index)
        tag.model = frame.step.model
        alike = tag.alike if left is None else tag.ragged
        if event is not None:
            event.kind, event.window, event.keep, event.slack, event.kv_bits = alike
            event.index, event.name, event.part = tag.index, tag.name, tag.part
    if event is not None:
        event.k = k
        frame.pending.append(event)
        frame.returns.append((held, event))
        return
    update = (index, tag, left, (alike, counters, q, k, rope, vectors))
    frame.pending.append(update)
    frame.returns.append((held, update))


def interface_wrapper(original: Wrapper, local: Local, watcher: Watcher | None) -> Wrapper:
    """For `AttentionInterface.get_interface`: within a forward, the function that it returns is wrapped.

    One wrapper for each function, so that the library's own comparisons and memos of it still hold.
    """
    wrappers: dict[Any, Wrapper] = {}

    def get_interface(interface: Any, attn_implementation: Any, default: Any) -> Any:
        function = original(interface, attn_implementation, default)
        if torch.compiler.is_compiling() or local.frame is None:
            return function
        wrapper = wrappers.get(function)
        if wrapper is None:
            wrapper = wrappers[function] = attention_wrapper(function, kind_of(function), local, watcher)
        return wrapper

    return get_interface


def attention_wrapper(original: Wrapper, kind: str, local: Local, watcher: Watcher | None) -> Wrapper:
    """For an attention function of the library, of a model or of the program."""

    @wraps(original)
    def attention(
        module: Any, query: Any, key: Any, value: Any, attention_mask: Any = None, *args: Any, **kwargs: Any
    ) -> Any:
        frame = local.frame
        try:
            layer = getattr(module, "layer_idx", None)
            if frame is not None and isinstance(layer, int) and _mixes_tokens(frame, module, key, layer):
                q, k = query.shape[2], key.shape[2]
                effect = effect_of(kind, module, q, k, attention_mask, kwargs)
                sinks = kwargs.get("s_aux") is not None
                event = _noted(frame, layer, (q, key), effect, sinks, watcher is None)
                if watcher is not None and event is not None:
                    key, value, attention_mask = watcher.attending(
                        frame, event, kind, module, query, key, value, attention_mask, kwargs
                    )
        except Exception as error:  # noqa: BLE001
            local.failed(error)
        # Outside of what may fail here: what the library raises is the program's own.
        return original(module, query, key, value, attention_mask, *args, **kwargs)

    return attention


def _noted(
    frame: Frame, layer: int, given: tuple[int, Any], effect: Effect, sinks: bool, short: bool
) -> AttentionEvent | None:
    """Note a call of a layer with so many queries over these keys; None where it was noted in `short`, as
    most are at the shapes level.
    """
    frame.layer = layer
    q, keys = given
    mask, pending = effect.mask, frame.pending
    if (
        short
        and pending
        and type(pending[-1]) is tuple
        and pending[-1][0] == layer
        and frame.returns[-1][0] is keys
        and pending[-1] is frame.returns[-1][1]
        and effect.rule != OLDEST
        and effect.rule != WINDOWED
        and effect.rule != OPAQUE
        and (mask is None or probe_masks.made(mask) is probe_masks.UNKNOWN)
    ):
        shape = effect.rule if mask is None else tuple(mask.shape)
        frame.step.calls.append((pending.pop(), shape, sinks))
        return None
    event = frame.take(keys, layer, q)
    _describe(event, effect, int(keys.shape[2]), sinks)
    frame.step.calls.append(event)
    return event


def _mixes_tokens(frame: Frame, module: Any, keys: Any, layer: int) -> bool:
    """Whether an attention call is about the tokens of a sequence: those of a vision tower, or of residuals
    attended in place of a sum, are causal by none of their words and touch no cache.
    """
    return bool(getattr(module, "is_causal", True)) or frame.knows(keys, layer)


def _describe(event: AttentionEvent, effect: Effect, k: int, sinks: bool) -> None:
    event.k_seen, event.sinks = k, sinks
    if effect.rule == OPAQUE:
        event.opaque = True
        return
    mask = effect.mask
    if mask is not None:
        event.mask = tuple(mask.shape)
        event.builder, event.key_padding = probe_masks.made(mask)
        return
    event.mask = "causal" if effect.rule == "causal" else None
    if effect.rule in (OLDEST, WINDOWED):
        event.fallback = effect.rule
