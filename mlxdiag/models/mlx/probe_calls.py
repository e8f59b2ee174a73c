"""Wrappers of `update_and_fetch` and attention where somebody watches each call: it may read what the call is
given, and replace it. `probe_shapes` has those for when nobody does.

What may fail here is the probe's alone: the original is called whatever happens, unless a fault is to be
raised (`Local.fault`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from mlxdiag.models.events import AttentionEvent
from mlxdiag.models.mlx import probe_rows
from mlxdiag.models.mlx.probe_frame import Frame, Local, key_length, mask_shape
from mlxdiag.models.mlx.probe_tags import OnCopy, Tag, tag_of

Wrapper = Callable[..., Any]


class Watcher(Protocol):
    """What the levels above shapes and the intervention add to a call."""

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


def update_wrapper(original: Wrapper, local: Local, watcher: Watcher, on_copy: OnCopy) -> Wrapper:
    """For any cache; the rows of a batch cache are followed outside of a forward too."""

    def update_and_fetch(cache: Any, keys: Any, values: Any) -> Any:
        frame = local.frame
        try:
            tag = tag_of(cache, on_copy)
            event = None
            if frame is not None and not frame.busy:
                event = event_before(frame, tag, cache, keys)
                if tag.batched:
                    event.rope = frame.position(cache, tag)
                    event.left_padding = tag.left
                    lengths = cache.offset.shape[0], cache.left_padding.shape[0]
                    event.vectors = dict(zip(("offset", "left_padding"), lengths, strict=True))
            if tag.batched:
                probe_rows.updated(tag, cache, keys.shape[2])
        except Exception as error:  # noqa: BLE001
            local.failed(error)
            return original(cache, keys, values)
        if frame is None or event is None:
            return original(cache, keys, values)
        keys = watcher.inserting(frame, event, cache, keys)
        return watcher.returned(frame, _append(original, local, frame, event, cache, keys, values))

    return update_and_fetch


def event_before(frame: Frame, tag: Tag, cache: Any, keys: Any) -> AttentionEvent:
    """The state of a cache before it is given `keys` [B, H, L, D]."""
    if not tag.placed:
        frame.place(tag, cache)
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
        frame.step.calls.append(event)
        raise
    finally:
        frame.busy = False
    try:
        held = returned[0]
        event.k = key_length(held)
        frame.pending.append(event)
        frame.returns.append((cache, held, event))
    except Exception as error:  # noqa: BLE001
        local.failed(error)
    return returned


def attention_wrapper(original: Wrapper, local: Local, watcher: Watcher) -> Wrapper:
    """For `mx.fast.scaled_dot_product_attention` and the library's quantised one."""

    def attention(queries: Any, keys: Any, values: Any, *args: Any, **kwargs: Any) -> Any:
        frame = local.frame
        if frame is None:
            return original(queries, keys, values, *args, **kwargs)
        try:
            mask = kwargs.get("mask")
            event = frame.attend(keys, queries.shape[2], mask_shape(mask), kwargs.get("sinks") is not None)
        except Exception as error:  # noqa: BLE001
            local.failed(error)
            return original(queries, keys, values, *args, **kwargs)
        keys, values, mask = watcher.attending(frame, event, queries, keys, values, mask)
        if mask is not None or "mask" in kwargs:
            kwargs["mask"] = mask
        return original(queries, keys, values, *args, **kwargs)

    return attention


def layer_wrapper(
    original: Wrapper, local: Local, layers: dict[int, int], watcher: Watcher, manual: set[int]
) -> Wrapper:
    """For the layers of a model; `layers` has the number of each by its id, `manual` the ids of those that
    compute their softmax by hand.
    """

    def __call__(layer: Any, *args: Any, **kwargs: Any) -> Any:
        frame = local.frame
        index = layers.get(id(layer))
        if frame is None or index is None or frame.layer is not None:
            return original(layer, *args, **kwargs)
        frame.enter(index, layer, args, kwargs)
        frame.manual = id(layer) in manual
        try:
            if frame.manual:
                args, kwargs = watcher.entering(frame)
            return original(layer, *args, **kwargs)
        except BaseException:
            if frame.failed is None:
                frame.failed = index
            raise
        finally:
            try:
                watcher.left(frame)
                frame.leave()
            except Exception as error:  # noqa: BLE001
                local.failed(error)

    return __call__
