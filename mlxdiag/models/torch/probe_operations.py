"""Wrappers of what is done to the layers of a cache outside a forward: crops, and the life of rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from mlxdiag.models.events import CacheEvent
from mlxdiag.models.torch import probe_rows
from mlxdiag.models.torch.probe_frame import Local
from mlxdiag.models.torch.probe_tags import ATTRIBUTE, OnCopy, Tag, tag_of

Emit = Callable[[CacheEvent], None]
Wrapper = Callable[..., Any]


class Operations:
    """Makes the wrappers; one for each probe. A layer that no forward was seen to use is left alone: there is
    nothing to say of it.
    """

    def __init__(self, emit: Emit, on_copy: OnCopy, local: Local) -> None:
        self.emit = emit
        self.on_copy = on_copy
        self.local = local
        self._busy: set[int] = set()
        self.makers: dict[str, Callable[[Wrapper], Wrapper]] = {
            "crop": self.crop,
            "reset": self.reset,
            "reorder_cache": self.reorder,
            "batch_select_indices": self.select,
            "batch_repeat_interleave": self.repeat,
        }

        self.of_cache: dict[str, Callable[[Wrapper], Wrapper]] = {
            "reorder_cache": self.rows_picked,
            "batch_select_indices": self.rows_picked,
            "batch_repeat_interleave": self.rows_repeated,
        }

    @contextmanager
    def _telling(self, op: str, layer: Any) -> Iterator[CacheEvent | None]:
        """The event of one operation, delivered when it is over; None where another one is at work, since
        classes call what they override.
        """
        tag: Tag | None = layer.__dict__.get(ATTRIBUTE)
        if tag is None or id(layer) in self._busy:
            yield None
            return
        tag = tag_of(layer, tag.index or 0, self.on_copy)
        event = CacheEvent(op, tag.uid, tag.name, tag.kind, tag.index, tag.layer, tag.offset_of(layer))
        event.kv_bits, event.model = tag.alike[4], tag.model
        self._busy.add(id(layer))
        try:
            yield event
        except BaseException as error:
            event.error = f"{type(error).__name__}: {error}"
            raise
        finally:
            self._busy.discard(id(layer))
            event.after = tag.offset_of(layer)
            if op == "trim" and isinstance(event.before, int) and isinstance(event.after, int):
                event.done = event.before - event.after
            self.emit(event)

    def crop(self, original: Wrapper) -> Wrapper:
        def crop(layer: Any, tokens_to_remove: int) -> Any:
            if not tokens_to_remove:
                # Nothing is taken back: a layer that recorded its past lets go of what it no longer needs.
                return original(layer, tokens_to_remove)
            with self._telling("trim", layer) as event:
                if event is not None:
                    event.asked = abs(int(tokens_to_remove))
                    event.slack = _recorded(layer, event.asked)
                return original(layer, tokens_to_remove)

        return crop

    def reset(self, original: Wrapper) -> Wrapper:
        def reset(layer: Any) -> Any:
            with self._telling("trim", layer) as event:
                if event is not None and isinstance(event.before, int):
                    event.asked = event.before
                return original(layer)

        return reset

    def reorder(self, original: Wrapper) -> Wrapper:
        def reorder_cache(layer: Any, beam_idx: Any) -> Any:
            with self._telling("filter", layer) as event:
                if event is not None:
                    event.rows = indices(beam_idx)
                return original(layer, beam_idx)

        return reorder_cache

    def select(self, original: Wrapper) -> Wrapper:
        def batch_select_indices(layer: Any, rows: Any) -> Any:
            with self._telling("filter", layer) as event:
                if event is not None:
                    event.rows = indices(rows)
                return original(layer, rows)

        return batch_select_indices

    def repeat(self, original: Wrapper) -> Wrapper:
        def batch_repeat_interleave(layer: Any, repeats: int) -> Any:
            with self._telling("filter", layer) as event:
                if event is not None and layer.keys is not None and layer.keys.ndim == 4:
                    event.rows = [row for row in range(layer.keys.shape[0]) for _ in range(repeats)]
                return original(layer, repeats)

        return batch_repeat_interleave

    def rows_picked(self, original: Wrapper) -> Wrapper:
        """For a whole cache: its layers tell of it, here the padding of the rows is followed."""

        def pick(cache: Any, rows: Any) -> Any:
            result = original(cache, rows)
            probe_rows.picked(cache, indices(rows))
            return result

        return pick

    def rows_repeated(self, original: Wrapper) -> Wrapper:
        """As `rows_picked`, for rows that are repeated in place."""

        def repeat(cache: Any, repeats: int) -> Any:
            result = original(cache, repeats)
            probe_rows.repeated(cache, repeats)
            return result

        return repeat


def indices(rows: Any) -> list[int] | None:
    """Row numbers from a list or a tensor; None for one on another device, which nobody reads here."""
    if not hasattr(rows, "device"):
        return [int(row) for row in rows]
    return [int(row) for row in rows.tolist()] if rows.device.type == "cpu" else None


def _recorded(layer: Any, asked: int) -> int | None:
    """Keys beyond the window that a sliding layer holds since its last crop; None where they are too few."""
    if not getattr(layer, "record_past", False) or not hasattr(layer, "sliding_window") or layer.keys is None:
        return None
    spare = layer.keys.shape[-2] - (layer.sliding_window - 1)
    return spare if spare >= asked else None
