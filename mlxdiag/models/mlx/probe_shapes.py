"""The hot path: wrappers of `update_and_fetch`, attention, RoPE and layers where nobody watches the calls.

Well under a microsecond each, and no array is read. What they see is kept in short (`events.Update`,
`Call`): plain tuples, which are equal for layers whose calls were equal.

What may fail here is the probe's alone: the original is called whatever happens, unless a fault is to be
raised (`Local.fault`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mlxdiag.models.events import Offset, Update, event_of_update
from mlxdiag.models.mlx import probe_rows
from mlxdiag.models.mlx.probe_frame import SEQUENCES, Frame, Local
from mlxdiag.models.mlx.probe_tags import ATTRIBUTE, Counters, OnCopy, Tag, tag_of

Wrapper = Callable[..., Any]


def update_wrapper(original: Wrapper, local: Local, on_copy: OnCopy) -> Wrapper:
    """For caches of one sequence, or of rows at one offset."""

    def update_and_fetch(cache: Any, keys: Any, values: Any) -> Any:
        frame = local.frame
        if frame is None or frame.busy:
            return original(cache, keys, values)
        try:
            tag = cache.__dict__.get(ATTRIBUTE)
            if tag is None or tag.home != id(cache):
                tag = tag_of(cache, on_copy)
            if not tag.placed:
                frame.place(tag, cache)
            before = tag.read(cache, tag)
        except Exception as error:  # noqa: BLE001
            local.failed(error)
            return original(cache, keys, values)
        rope = frame.rope
        if type(rope) is not int:
            rope = None
        frame.busy = True
        try:
            returned = original(cache, keys, values)
        except BaseException:
            _refused(frame, tag, None, before, keys, rope, None)
            raise
        frame.busy = False
        try:
            held = returned[0]
            k = held[0].shape[2] if type(held) in SEQUENCES else held.shape[2]
            update = (frame.layer, tag, None, (tag.alike, before, keys.shape[2], k, rope, None))
            frame.pending.append(update)
            frame.returns.append((cache, held, update))
        except Exception as error:  # noqa: BLE001
            local.failed(error)
        return returned

    return update_and_fetch


def batch_update_wrapper(original: Wrapper, local: Local, on_copy: OnCopy) -> Wrapper:
    """For batch caches, whose rows are followed outside of a forward too."""

    def update_and_fetch(cache: Any, keys: Any, values: Any) -> Any:
        frame = local.frame
        seen = frame is not None and not frame.busy
        try:
            tag, q = tag_of(cache, on_copy), keys.shape[2]
            if frame is not None and seen:
                if not tag.placed:
                    frame.place(tag, cache)
                before, left = tag.read(cache, tag), tag.left
                rope = frame.position(cache, tag)
                vectors = cache.offset.shape[0], cache.left_padding.shape[0]
            probe_rows.updated(tag, cache, q)
        except Exception as error:  # noqa: BLE001
            local.failed(error)
            return original(cache, keys, values)
        if frame is None or not seen:
            return original(cache, keys, values)
        frame.busy = True
        try:
            returned = original(cache, keys, values)
        except BaseException:
            _refused(frame, tag, left, before, keys, rope, vectors)
            raise
        frame.busy = False
        try:
            held = returned[0]
            update = (frame.layer, tag, left, (tag.alike, before, q, held.shape[2], rope, vectors))
            frame.pending.append(update)
            frame.returns.append((cache, held, update))
        except Exception as error:  # noqa: BLE001
            local.failed(error)
        return returned

    return update_and_fetch


def _refused(
    frame: Frame, tag: Tag, left: Any, before: Counters, keys: Any, rope: Offset, vectors: Any
) -> None:
    """The cache raised: there will be no attention call."""
    frame.busy = False
    update: Update = (frame.layer, tag, left, (tag.alike, before, keys.shape[2], None, rope, vectors))
    frame.step.calls.append(event_of_update(update))


def attention_wrapper(original: Wrapper, local: Local) -> Wrapper:
    """For `mx.fast.scaled_dot_product_attention` and the library's quantised one."""

    def attention(*args: Any, **kwargs: Any) -> Any:
        frame = local.frame
        if frame is None:
            return original(*args, **kwargs)
        try:
            keys = args[1] if len(args) > 1 else kwargs["k"]
            mask = kwargs.get("mask")
            shape = mask if mask is None or type(mask) is str else mask.shape
            sinks = kwargs.get("sinks") is not None
            pending = frame.pending
            if pending and frame.returns[-1][1] is keys and pending[-1] is frame.returns[-1][2]:
                frame.step.calls.append((pending.pop(), shape, sinks))
                frame.attended = True
            else:
                q = args[0] if args else kwargs["q"]
                frame.attend(keys, q.shape[2], shape, sinks)
        except Exception as error:  # noqa: BLE001
            local.failed(error)
        return original(*args, **kwargs)

    return attention


def rope_wrapper(original: Wrapper, local: Local) -> Wrapper:
    """For `mx.fast.rope`: remembers the position it is given."""

    def rope(*args: Any, **kwargs: Any) -> Any:
        frame = local.frame
        if frame is not None:
            frame.rope = kwargs.get("offset")
        return original(*args, **kwargs)

    return rope


def layer_wrapper(original: Wrapper, local: Local, layers: dict[int, int]) -> Wrapper:
    """For the layers of a model; `layers` has the number of each by its id."""

    def __call__(layer: Any, *args: Any, **kwargs: Any) -> Any:
        frame = local.frame
        if frame is None or frame.layer is not None:
            return original(layer, *args, **kwargs)
        index = layers.get(id(layer))
        if index is None:
            return original(layer, *args, **kwargs)
        frame.layer, frame.args, frame.kwargs = index, args, kwargs
        frame.rope = None
        frame.attended = False
        try:
            result = original(layer, *args, **kwargs)
        except BaseException:
            if frame.failed is None:
                frame.failed = index
            _left(frame, local)
            raise
        if frame.pending:
            _left(frame, local)
        else:
            frame.layer = None
        return result

    return __call__


def _left(frame: Frame, local: Local) -> None:
    try:
        frame.leave()
    except Exception as error:  # noqa: BLE001
        local.failed(error)
