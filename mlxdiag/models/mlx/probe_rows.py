"""Rows of a batch cache, followed through every operation from the lists that it is given.

Each function is called before the library's own code runs, save `merged`. Formulas: `BatchKVCache` and
`BatchRotatingKVCache` of mlx-lm 0.32. A list that cannot be known is None from then on.
"""

from __future__ import annotations

from typing import Any

from mlxdiag.models.mlx.probe_tags import Tag

Ints = list[int] | None


def ints(values: Any) -> Ints:
    """A Python list of ints, or None for an array, which is never read."""
    if isinstance(values, list | tuple | range) and all(isinstance(v, int) for v in values):
        return list(values)
    return None


def _plus(a: Ints, b: Ints | int) -> Ints:
    if a is None or b is None:
        return None
    if isinstance(b, int):
        return [x + b for x in a]
    return [x + y for x, y in zip(a, b, strict=False)]


def _minus(a: Ints, b: Ints | int) -> Ints:
    negative = -b if isinstance(b, int) else None if b is None else [-x for x in b]
    return _plus(a, negative)


def created(tag: Tag, left_padding: Any) -> None:
    tag.left = ints(left_padding)
    tag.offsets = None if tag.left is None else [-p for p in tag.left]


def prepared(tag: Tag, left_padding: Any, lengths: Any, right_padding: Any) -> None:
    if left_padding is not None:
        tag.left = _plus(tag.left, ints(left_padding))
        tag.offsets = _minus(tag.offsets, ints(left_padding))
    if right_padding is None:
        return
    right = ints(right_padding)
    if right is None:
        tag.offsets = tag.left = None
    elif max(right) > 0 and tag.kind == "batch":
        tag.right = right
    elif max(right) > 0:
        tag.lengths = _plus(ints(lengths), tag.offsets)


def _roll(tag: Tag) -> None:
    """Padding that a rotating batch turns from the right to the left, so that it is evicted first."""
    if tag.lengths is None or tag.offsets is None:
        tag.offsets = tag.left = None
        return
    roll = [max(0, o - n) for o, n in zip(tag.offsets, tag.lengths, strict=False)]
    tag.offsets = _minus(tag.offsets, roll)
    tag.left = _plus(tag.left, roll)


def updated(tag: Tag, cache: Any, n: int) -> None:
    if tag.kind == "batch_rotating" and cache.keys is not None:
        if n > 1:
            if cache._lengths is not None:
                _roll(tag)
            filled = cache.keys.shape[2] if cache.rotated else min(cache._idx, cache.keys.shape[2])
            evicted = max(0, filled - cache.max_size + 1)
        else:
            evicted = max(0, cache.keys.shape[2] - cache.max_size)
            full = evicted > 0 or cache._idx == cache.max_size
            evicted += int(cache.rotated or full)
        tag.left = _minus(tag.left, evicted)
    tag.offsets = _plus(tag.offsets, n)


def finalized(tag: Tag, cache: Any) -> None:
    if tag.kind == "batch_rotating" and cache._lengths is not None:
        _roll(tag)
    elif tag.kind == "batch" and cache._right_padding is not None:
        tag.offsets = _minus(tag.offsets, tag.right)
        tag.left = _plus(tag.left, tag.right)
    tag.right = tag.lengths = None


def trimmed(tag: Tag, done: int) -> None:
    tag.offsets = _minus(tag.offsets, done)


def filtered(tag: Tag, kept: Any) -> None:
    rows = ints(kept)
    for name in ("offsets", "left"):
        values = getattr(tag, name)
        setattr(tag, name, None if rows is None or values is None else [values[r] for r in rows])
    if tag.kind == "batch" and tag.left and min(tag.left) > 0:
        tag.left = _minus(tag.left, min(tag.left))


def extended(tag: Tag, other: Tag, shifts: tuple[int, int]) -> None:
    """`shifts`: columns put in front of the rows of this cache and of the other, to right-justify both."""
    left, more = _plus(tag.left, shifts[0]), _plus(other.left, shifts[1])
    tag.left = None if left is None or more is None else left + more
    offsets, others = tag.offsets, other.offsets
    tag.offsets = None if offsets is None or others is None else offsets + others


def shifts(cache: Any, other: Any) -> tuple[int, int]:
    """What `extend` will put in front of each of two batch caches of one kind; read before it runs."""
    if cache.keys is None and other.keys is None:
        return 0, 0
    cursors = [cache._idx, other._idx]
    rotated = [getattr(c, "rotated", False) for c in (cache, other)]
    if cursors[0] != cursors[1] or rotated[0] != rotated[1]:
        pairs = zip((cache, other), rotated, cursors, strict=True)
        cursors = [c.keys.shape[2] if turned else cursor for c, turned, cursor in pairs]
    top = max(cursors)
    return top - cursors[0], top - cursors[1]


def merged(tag: Tag, caches: list[Any]) -> None:
    """The constructor has already set the paddings; offsets are the rows' own."""
    if all(c.keys is None for c in caches):
        return
    tag.offsets = [c.offset if tag.kind == "batch_rotating" else c.size() for c in caches]
