"""Wrappers of what is done to a cache outside a forward: trims, and the life of the rows of a batch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from mlxdiag.models.events import CacheEvent
from mlxdiag.models.mlx import probe_rows
from mlxdiag.models.mlx.probe_tags import OnCopy, Tag, kind_of, tag_of

Emit = Callable[[CacheEvent], None]
Wrapper = Callable[..., Any]


def event_of(op: str, tag: Tag, cache: Any) -> CacheEvent:
    """An event of one cache with its state before the operation."""
    return CacheEvent(
        op,
        tag.uid,
        tag.name,
        tag.kind,
        index=tag.index,
        layer=tag.layer,
        before=tag.offset_of(cache),
        kv_bits=tag.kv_bits,
        model=tag.model,
    )


class Operations:
    """Makes the wrappers; one for each probe."""

    def __init__(self, emit: Emit, on_copy: OnCopy, on_quantized: Callable[..., None] | None = None) -> None:
        self.emit = emit
        self.on_copy = on_copy
        self.on_quantized = on_quantized
        self.makers: dict[str, Callable[[Wrapper], Wrapper]] = {
            "trim": self.trim,
            "trim_front_keep_sink": self.trim_front,
            "maybe_trim_front": self.chunk_trim,
            "prepare": self.prepare,
            "finalize": self.finalize,
            "filter": self.filter,
            "extend": self.extend,
            "extract": self.extract,
            "to_quantized": self.to_quantized,
        }

    @contextmanager
    def _telling(self, event: CacheEvent, tag: Tag, cache: Any) -> Iterator[CacheEvent]:
        """Deliver the event when the operation is over, with its error if it raised one."""
        try:
            yield event
        except BaseException as error:
            event.error = f"{type(error).__name__}: {error}"
            raise
        finally:
            if event.after is None and cache is not None:
                event.after = tag.offset_of(cache)
            self.emit(event)

    def _begin(self, op: str, cache: Any) -> tuple[Tag, CacheEvent]:
        tag = tag_of(cache, self.on_copy)
        return tag, event_of(op, tag, cache)

    def trim(self, original: Wrapper) -> Wrapper:
        def trim(cache: Any, n: int) -> Any:
            tag, event = self._begin("trim", cache)
            with self._telling(event, tag, cache):
                event.asked = n
                event.done = original(cache, n)
                if tag.batched:
                    probe_rows.trimmed(tag, event.done)
            return event.done

        return trim

    def trim_front(self, original: Wrapper) -> Wrapper:
        def trim_front_keep_sink(cache: Any, n: int, sinks: int) -> Any:
            tag, event = self._begin("trim_front", cache)
            with self._telling(event, tag, cache):
                event.asked = n
                event.done = original(cache, n, sinks)
            return event.done

        return trim_front_keep_sink

    def chunk_trim(self, original: Wrapper) -> Wrapper:
        """Called before every forward by the model itself: told of only when it drops something."""

        def maybe_trim_front(cache: Any) -> Any:
            before = cache.start_position
            result = original(cache)
            dropped = cache.start_position - before
            if dropped:
                tag, event = self._begin("trim_front", cache)
                with self._telling(event, tag, cache):
                    event.asked = event.done = dropped
            return result

        return maybe_trim_front

    def prepare(self, original: Wrapper) -> Wrapper:
        def prepare(cache: Any, **kwargs: Any) -> Any:
            tag, event = self._begin("prepare", cache)
            with self._telling(event, tag, cache):
                result = original(cache, **kwargs)
                if tag.batched:
                    names = ("left_padding", "lengths", "right_padding")
                    probe_rows.prepared(tag, *(kwargs.get(name) for name in names))
            return result

        return prepare

    def finalize(self, original: Wrapper) -> Wrapper:
        def finalize(cache: Any) -> Any:
            tag, event = self._begin("finalize", cache)
            with self._telling(event, tag, cache):
                if tag.batched:
                    probe_rows.finalized(tag, cache)
                return original(cache)

        return finalize

    def filter(self, original: Wrapper) -> Wrapper:
        def filter_rows(cache: Any, batch_indices: Any) -> Any:
            tag, event = self._begin("filter", cache)
            with self._telling(event, tag, cache):
                event.rows = probe_rows.ints(batch_indices)
                if tag.batched:
                    probe_rows.filtered(tag, batch_indices)
                return original(cache, batch_indices)

        return filter_rows

    def extend(self, original: Wrapper) -> Wrapper:
        def extend(cache: Any, other: Any) -> Any:
            more = tag_of(other, self.on_copy)
            tag, event = self._begin("extend", cache)
            with self._telling(event, tag, cache):
                event.parents = [tag.uid, more.uid]
                if tag.batched:
                    probe_rows.extended(tag, more, probe_rows.shifts(cache, other))
                return original(cache, other)

        return extend

    def extract(self, original: Wrapper) -> Wrapper:
        def extract(cache: Any, idx: int) -> Any:
            tag, event = self._begin("extract", cache)
            with self._telling(event, tag, cache):
                event.parents, event.rows = [tag.uid], [idx]
                single = original(cache, idx)
                self._inherit(event, tag, single)
            return single

        return extract

    def to_quantized(self, original: Wrapper) -> Wrapper:
        def to_quantized(cache: Any, *args: Any, **kwargs: Any) -> Any:
            tag, event = self._begin("to_quantized", cache)
            with self._telling(event, tag, cache):
                event.parents = [tag.uid]
                quantized = original(cache, *args, **kwargs)
                if self.on_quantized is not None:
                    self.on_quantized(tag, cache, quantized)
                self._inherit(event, tag, quantized)
            return quantized

        return to_quantized

    def _inherit(self, event: CacheEvent, tag: Tag, child: Any) -> None:
        """The child is another cache of the same layer; the event is told under its uid."""
        heir = tag_of(child, self.on_copy)
        for name in ("index", "part", "layer", "model", "placed"):
            setattr(heir, name, getattr(tag, name))
        event.uid, event.name, event.kind, event.kv_bits = heir.uid, heir.name, heir.kind, heir.kv_bits
        event.after = heir.offset_of(child)

    def merge(self, original: Wrapper) -> Wrapper:
        """For the class method of a batch cache; gets the function, returns one that a class method can
        hold.
        """

        def merge(cls: type, caches: Any) -> Any:
            parents = [tag_of(c, self.on_copy) for c in caches]
            event = event_of("merge", parents[0], caches[0])
            event.name, event.kind, event.before = cls.__name__, kind_of(cls), None
            with self._telling(event, parents[0], None):
                event.parents = [p.uid for p in parents]
                if event.kind != "recurrent":
                    event.declared = [c.size() for c in caches]
                    event.sizes = [_available(c, n) for c, n in zip(caches, event.declared, strict=True)]
                batch = original(cls, caches)
                tag = tag_of(batch, self.on_copy)
                if tag.batched:
                    probe_rows.merged(tag, caches)
                self._inherit(event, parents[0], batch)
            return batch

        return merge

    def created(self, original: Wrapper) -> Wrapper:
        """For the constructor of a batch cache, which is where its paddings are first known."""

        def __init__(cache: Any, *args: Any, **kwargs: Any) -> None:
            original(cache, *args, **kwargs)
            padding = kwargs.get("left_padding", args[-1] if args else None)
            probe_rows.created(tag_of(cache, self.on_copy), padding)

        return __init__


def _available(cache: Any, declared: int) -> int:
    """How many keys a row's array can give of the `declared` ones."""
    slots = 0 if cache.keys is None else int(cache.keys.shape[2])
    index = getattr(cache, "_idx", slots)
    valid = index if index != slots and index >= cache.offset else slots
    return min(declared, valid)
