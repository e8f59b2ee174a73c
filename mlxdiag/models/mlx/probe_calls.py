"""The hot path: wrappers of `update_and_fetch`, attention and RoPE. Some microseconds a layer, no array
read.

What may fail here is the probe's alone: the original is called whatever happens, unless a fault is to be
raised (`Local.fault`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from mlxdiag.models.mlx import probe_rows
from mlxdiag.models.mlx.probe_events import AttentionEvent
from mlxdiag.models.mlx.probe_frame import SEQUENCES, Frame, Local
from mlxdiag.models.mlx.probe_tags import ATTRIBUTE, OnCopy, Tag, tag_of

Wrapper = Callable[..., Any]


class Watcher(Protocol):
    """What the visibility level and the intervention add to a call. Absent at the shapes level."""

    def inserting(self, frame: Frame, event: AttentionEvent, cache: Any, keys: Any) -> Any:
        """New keys [B, H, L, D] are about to be appended; returns those to append."""

    def returned(self, frame: Frame, keys_and_values: Any) -> Any:
        """The cache has returned; returns what the layer is given."""

    def entering(self, frame: Frame) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """A layer with a softmax by hand begins; returns the arguments to call it with."""

    def attending(
        self, frame: Frame, event: AttentionEvent, queries: Any, keys: Any, values: Any, mask: Any
    ) -> tuple[Any, Any, Any]:
        """The call is about to be made; returns the keys, values and mask to make it with."""

    def left(self, frame: Frame) -> None:
        """A layer has ended; its pending updates had their softmax computed by hand."""


def update_wrapper(original: Wrapper, local: Local, watcher: Watcher | None, on_copy: OnCopy) -> Wrapper:
    """For caches of one sequence, or of rows at one offset."""

    def update_and_fetch(cache: Any, keys: Any, values: Any) -> Any:
        frame = local.frame
        if frame is None or frame.busy:
            return original(cache, keys, values)
        try:
            tag = cache.__dict__.get(ATTRIBUTE)
            if tag is None or tag.home != id(cache):
                tag = tag_of(cache, on_copy)
            event = event_before(frame, tag, cache, keys)
        except Exception as error:  # noqa: BLE001
            local.failed(error)
            return original(cache, keys, values)
        if watcher is not None:
            keys = watcher.inserting(frame, event, cache, keys)
            return watcher.returned(frame, _append(original, local, frame, event, cache, keys, values))
        # As `_append`, without its call.
        frame.busy = True
        try:
            returned = original(cache, keys, values)
        except BaseException:
            frame.step.attention.append(event)
            frame.busy = False
            raise
        frame.busy = False
        try:
            held = returned[0]
            event.k = held[0].shape[2] if type(held) in SEQUENCES else held.shape[2]
            frame.pending.append(event)
            frame.returns.append((cache, held, event))
        except Exception as error:  # noqa: BLE001
            local.failed(error)
        return returned

    return update_and_fetch


def batch_update_wrapper(
    original: Wrapper, local: Local, watcher: Watcher | None, on_copy: OnCopy
) -> Wrapper:
    """For batch caches, whose rows are followed outside of a forward too."""

    def update_and_fetch(cache: Any, keys: Any, values: Any) -> Any:
        frame = local.frame
        try:
            tag = tag_of(cache, on_copy)
            event = None
            if frame is not None and not frame.busy:
                event = event_before(frame, tag, cache, keys)
                event.rope = frame.position(cache, tag)
                event.left_padding = tag.left
                event.vectors = {"offset": cache.offset.shape[0], "left_padding": cache.left_padding.shape[0]}
            probe_rows.updated(tag, cache, keys.shape[2])
        except Exception as error:  # noqa: BLE001
            local.failed(error)
            return original(cache, keys, values)
        if frame is None or event is None:
            return original(cache, keys, values)
        if watcher is not None:
            keys = watcher.inserting(frame, event, cache, keys)
        returned = _append(original, local, frame, event, cache, keys, values)
        return returned if watcher is None else watcher.returned(frame, returned)

    return update_and_fetch


def event_before(frame: Frame, tag: Tag, cache: Any, keys: Any) -> AttentionEvent:
    """The state of a cache before it is given `keys` [B, H, L, D]."""
    if not tag.placed:
        tag.placed = True
        tag.index, tag.part = frame.place_of(cache)
        tag.layer, tag.model = frame.layer, frame.step.model
    offset, cursor, live_start, live, buffer = tag.read(cache, tag)
    rope = frame.rope
    return AttentionEvent(
        frame.layer,
        tag.index,
        tag.name,
        tag.kind,
        tag.window,
        tag.keep,
        tag.slack,
        tag.kv_bits,
        offset,
        cursor,
        live_start,
        live,
        buffer,
        keys.shape[2],
        rope if type(rope) is int else None,
        part=tag.part,
    )


def _append(
    original: Wrapper,
    local: Local,
    frame: Frame,
    event: AttentionEvent,
    cache: Any,
    keys: Any,
    values: Any,
) -> Any:
    frame.busy = True
    try:
        returned = original(cache, keys, values)
    except BaseException:
        frame.step.attention.append(event)
        raise
    finally:
        frame.busy = False
    try:
        held = returned[0]
        event.k = held[0].shape[2] if type(held) in SEQUENCES else held.shape[2]
        frame.pending.append(event)
        frame.returns.append((cache, held, event))
    except Exception as error:  # noqa: BLE001
        local.failed(error)
    return returned


def attention_wrapper(original: Wrapper, local: Local, watcher: Watcher | None) -> Wrapper:
    """For `mx.fast.scaled_dot_product_attention` and the library's quantised one."""

    def attention(queries: Any, keys: Any, values: Any, *args: Any, **kwargs: Any) -> Any:
        frame = local.frame
        if frame is None:
            return original(queries, keys, values, *args, **kwargs)
        try:
            returns, pending = frame.returns, frame.pending
            if pending and returns[-1][1] is keys and pending[-1] is returns[-1][2]:
                event = pending.pop()
            else:
                event = frame.take(keys, queries.shape[2])
            mask = kwargs.get("mask")
            event.k_seen = keys[0].shape[2] if type(keys) in SEQUENCES else keys.shape[2]
            event.mask = mask if mask is None or type(mask) is str else mask.shape
            event.sinks = kwargs.get("sinks") is not None
            frame.attended = True
            frame.step.attention.append(event)
        except Exception as error:  # noqa: BLE001
            local.failed(error)
            return original(queries, keys, values, *args, **kwargs)
        if watcher is not None:
            keys, values, mask = watcher.attending(frame, event, queries, keys, values, mask)
            if mask is not None or "mask" in kwargs:
                kwargs["mask"] = mask
        return original(queries, keys, values, *args, **kwargs)

    return attention


def rope_wrapper(original: Wrapper, local: Local) -> Wrapper:
    """For `mx.fast.rope`: remembers the position it is given."""

    def rope(*args: Any, **kwargs: Any) -> Any:
        frame = local.frame
        if frame is not None:
            frame.rope = kwargs.get("offset")
        return original(*args, **kwargs)

    return rope
