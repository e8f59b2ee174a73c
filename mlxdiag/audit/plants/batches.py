"""Faults of batches: padding unmasked, rows mixed up, lengths of another row."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mlx.core as mx

from mlxdiag.audit.plants.bed import BATCHES, STATES, Bed, Install, differ


def left_padding_visible(bed: Bed) -> None:
    """Masks of a batch are built as though no row had padding in front."""

    def wrap(original: Callable[..., Any]) -> Callable[..., Any]:
        def make_mask(cache: Any, *args: Any, **kwargs: Any) -> Any:
            held = cache.left_padding
            bed.note(bool(mx.any(held > 0).item()))
            cache.left_padding = mx.minimum(held, 0)
            try:
                return original(cache, *args, **kwargs)
            finally:
                cache.left_padding = held

        return make_mask

    bed.method(BATCHES, "make_mask", wrap)


def padding_in_state(bed: Bed) -> None:
    """Recurrent layers take padding for tokens."""

    def wrap(original: Callable[..., Any]) -> Callable[..., Any]:
        def make_mask(cache: Any, N: int) -> Any:
            right = original(cache, N)
            bed.note(right is not None and not bool(mx.all(right).item()))
            return None

        return make_mask

    bed.method(STATES, "make_mask", wrap)


def padding_not_counted_down(bed: Bed) -> None:
    """Recurrent layers forget that a part of the padding, or of the tokens, has passed."""

    def wrap(_original: Callable[..., Any]) -> Callable[..., Any]:
        def advance(cache: Any, _tokens: int) -> None:
            bed.note(cache.lengths is not None or cache.left_padding is not None)

        return advance

    bed.method(STATES, "advance", wrap)


def finalize_skipped(bed: Bed) -> None:
    """Right padding stays where it is, between the tokens of its row."""

    def wrap(_original: Callable[..., Any]) -> Callable[..., Any]:
        def finalize(cache: Any) -> None:
            name = "_right_padding" if hasattr(cache, "_right_padding") else "_lengths"
            bed.note(getattr(cache, name) is not None)
            setattr(cache, name, None)

        return finalize

    bed.method(BATCHES, "finalize", wrap)


def finalize_one_short(bed: Bed) -> None:
    """Right padding is rolled to the front of its row but for one column."""

    def wrap(original: Callable[..., Any]) -> Callable[..., Any]:
        def finalize(cache: Any) -> None:
            right, lengths = getattr(cache, "_right_padding", None), getattr(cache, "_lengths", None)
            if right is not None:
                cache._right_padding = mx.maximum(right - 1, 0)
            if lengths is not None:
                cache._lengths = lengths + 1
            bed.note(right is not None or lengths is not None)
            original(cache)

        return finalize

    bed.method(BATCHES, "finalize", wrap)


def filter_keeps_neighbours(bed: Bed) -> None:
    """A filter keeps, for each row that it is asked for, the next one."""

    def wrap(original: Callable[..., Any]) -> Callable[..., Any]:
        def filter(cache: Any, batch_indices: Any) -> None:
            rows = cache.batch_size if hasattr(cache, "batch_size") else cache.offset.size
            asked = _listed(batch_indices)
            wrong = [(row + 1) % rows for row in asked]
            bed.note(wrong != asked)
            original(cache, wrong)

        return filter

    bed.method(BATCHES + STATES, "filter", wrap)


def filter_keeps_paddings(bed: Bed) -> None:
    """After a filter the paddings are those of the first rows, whichever stayed."""

    def wrap(original: Callable[..., Any]) -> Callable[..., Any]:
        def filter(cache: Any, batch_indices: Any) -> None:
            asked, before = _listed(batch_indices), cache.left_padding
            original(cache, batch_indices)
            cut = before[mx.array(asked)] - cache.left_padding
            wrong = before[: len(asked)] - cut
            bed.note(differ(wrong, cache.left_padding))
            cache.left_padding = wrong

        return filter

    bed.method(BATCHES, "filter", wrap)


def extend_puts_in_front(bed: Bed) -> None:
    """The rows that join a batch come before those that are there."""

    def wrap(original: Callable[..., Any]) -> Callable[..., Any]:
        def extend(cache: Any, other: Any) -> None:
            joining = other.offset.size
            original(cache, other)
            if cache.keys is not None:
                bed.note(True)
                for name in ("keys", "values", "offset", "left_padding"):
                    setattr(cache, name, _turned(getattr(cache, name), joining))

        return extend

    def state(original: Callable[..., Any]) -> Callable[..., Any]:
        def extend(cache: Any, other: Any) -> None:
            joining = other.batch_size
            original(cache, other)
            bed.note(any(part is not None for part in cache.cache))
            cache.cache = [None if part is None else _turned(part, joining) for part in cache.cache]

        return extend

    bed.method(BATCHES, "extend", wrap)
    bed.method(STATES, "extend", state)


def extend_forgets_padding(bed: Bed) -> None:
    """Rows that are moved right to join a batch count no padding for it."""

    def wrap(original: Callable[..., Any]) -> Callable[..., Any]:
        def extend(cache: Any, other: Any) -> None:
            wrong = mx.concatenate([cache.left_padding, other.left_padding])
            original(cache, other)
            bed.note(differ(wrong, cache.left_padding))
            cache.left_padding = wrong

        return extend

    bed.method(BATCHES, "extend", wrap)


def merge_pads(by: int) -> Install:
    """A merge counts one column of padding more, or less where a row has some, than it puts in."""

    def install(bed: Bed) -> None:
        def wrap(original: Callable[..., Any]) -> Callable[..., Any]:
            def merge(cls: Any, caches: Any) -> Any:
                merged = original(cls, caches)
                if merged.keys is not None:
                    right = merged.left_padding
                    merged.left_padding = right + by if by > 0 else mx.maximum(right + by, 0)
                    bed.note(differ(right, merged.left_padding))
                return merged

            return merge

        bed.method(BATCHES, "merge", wrap)

    return install


def merge_flattens_offsets(bed: Bed) -> None:
    """After a merge every row counts on from the longest one's end."""

    def wrap(original: Callable[..., Any]) -> Callable[..., Any]:
        def merge(cls: Any, caches: Any) -> Any:
            merged = original(cls, caches)
            right = merged.offset
            merged.offset = mx.broadcast_to(right.max(), right.shape)
            bed.note(differ(right, merged.offset))
            return merged

        return merge

    bed.method(BATCHES, "merge", wrap)


def merge_reverses_states(bed: Bed) -> None:
    """A merge of recurrent states lays the rows in reverse."""

    def wrap(original: Callable[..., Any]) -> Callable[..., Any]:
        def merge(cls: Any, caches: Any) -> Any:
            merged = original(cls, caches)
            if not merged.empty():
                bed.note(len(caches) > 1)
                merged.cache = [None if part is None else part[::-1] for part in merged.cache]
            return merged

        return merge

    bed.method(STATES, "merge", wrap)


def extract_one_short(bed: Bed) -> None:
    """A row that leaves its batch loses its oldest key."""

    def wrap(original: Callable[..., Any]) -> Callable[..., Any]:
        def extract(cache: Any, idx: int) -> Any:
            row = original(cache, idx)
            row.keys, row.values = row.keys[..., 1:, :], row.values[..., 1:, :]
            row.offset -= 1
            if hasattr(row, "_idx"):
                row._idx -= 1
            bed.note(True)
            return row

        return extract

    bed.method(BATCHES, "extract", wrap)


def extract_takes_neighbour(bed: Bed) -> None:
    """A row that leaves its batch takes the next row's recurrent state."""

    def wrap(original: Callable[..., Any]) -> Callable[..., Any]:
        def extract(cache: Any, idx: int) -> Any:
            bed.note(cache.batch_size > 1)
            return original(cache, (idx + 1) % cache.batch_size)

        return extract

    bed.method(STATES, "extract", wrap)


def first_rows_position(bed: Bed) -> None:
    """Every row of a batch is placed where its first row is."""

    def change(_module: Any, _length: int, offset: Any) -> Any:
        if isinstance(offset, mx.array) and offset.ndim:
            return mx.broadcast_to(offset[0], offset.shape)
        return offset

    bed.ropes(change)


def _turned(array: Any, rows: int) -> Any:
    """The last `rows` of the first axis come first."""
    return mx.concatenate([array[-rows:], array[:-rows]])


def _listed(indices: Any) -> list[int]:
    return [int(i) for i in (indices.tolist() if hasattr(indices, "tolist") else indices)]
