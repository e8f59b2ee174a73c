"""Continuous batching: one forward holds several requests, packed into a single row behind one another.

Who is in it is known on the host before each forward (`ContinuousBatchingIOs.prepare_batch_tensors`). Its
attention calls are told as such, one row a request.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from mlxdiag.models.events import AttentionEvent
from mlxdiag.models.torch.packing import Packed, Packing
from mlxdiag.models.torch.probe_frame import Local
from mlxdiag.models.torch.probe_watcher import Watcher

Wrapper = Callable[..., Any]


def prepare_wrapper(original: Wrapper, local: Local) -> Wrapper:
    """For `ContinuousBatchingIOs.prepare_batch_tensors`: who is in the next forward of this thread."""

    def prepare_batch_tensors(io: Any, requests_in_batch: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            local.packed = [
                Packed(future.state.request_id, future.state.position_offset, future.query_length)
                for future in requests_in_batch
            ]
        except Exception as error:  # noqa: BLE001
            local.failed(error)
        return original(io, requests_in_batch, *args, **kwargs)

    return prepare_batch_tensors


def update_wrapper(original: Wrapper, local: Local, watcher: Watcher | None) -> Wrapper:
    """For `PagedAttentionCache.update`."""

    def update(
        cache: Any, key_states: Any, value_states: Any, layer_idx: int, *args: Any, **kwargs: Any
    ) -> Any:
        if torch.compiler.is_compiling():
            return original(cache, key_states, value_states, layer_idx, *args, **kwargs)
        frame = local.frame
        if frame is None or frame.packing is None:
            return original(cache, key_states, value_states, layer_idx, *args, **kwargs)
        try:
            event = _before(frame.packing, cache, key_states, layer_idx)
            frame.layer = layer_idx
            if watcher is not None:
                key_states = watcher.inserting(frame, event, key_states)
        except Exception as error:  # noqa: BLE001
            local.failed(error)
            return original(cache, key_states, value_states, layer_idx, *args, **kwargs)
        try:
            returned = original(cache, key_states, value_states, layer_idx, *args, **kwargs)
        except BaseException:
            frame.step.calls.append(event)
            raise
        event.k = int(returned[0].shape[2])
        if event.ks is not None and sum(event.ks) != event.k:
            # Padded, or not what the cache says of itself: only the sum was observed.
            event.ks = None
        frame.pending.append(event)
        frame.returns.append((returned[0], event))
        return returned

    return update


def _before(packing: Packing, cache: Any, keys: Any, layer: int) -> AttentionEvent:
    allocator = cache.layer_to_allocator[layer]
    members = packing.members
    window = getattr(allocator, "sliding_window", None)
    event = AttentionEvent(
        layer,
        layer,
        type(cache).__name__,
        "paged",
        window,
        None,
        None,
        None,
        [member.offset for member in members],
        None,
        None,
        None,
        None,
        int(keys.shape[2]),
    )
    event.ks = [allocator.get_seqlen_k(member.offset, member.tokens) for member in members]
    return event
