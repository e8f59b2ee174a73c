"""What the text of a shape error says: which axis, which side is the mask, by how much. Text only, no
rules."""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

Shape = tuple[int, ...]

KEYS, QUERIES, BATCH, LENGTH, METADATA, EMPTY = "keys", "queries", "batch", "length", "metadata", "empty"
"""The axis at fault. keys and queries: of an attention mask; length: of a cache (axis 2 of keys and values);
batch: of a mask or cache; metadata: a per-row vector; empty: an array without entries."""

_SHAPE = re.compile(r"[(\[]\s*(\d+(?:\s*,\s*\d+)*)\s*,?\s*[)\]]")
_CAUSE = re.compile(
    r"broadcast_shapes|cannot be broadcast|Cannot broadcast|provided shapes are|shapes are|shape mismatch"
    r"|must match the size of tensor|Sizes of tensors must match|could not be broadcast",
    re.IGNORECASE,
)
_TORCH = re.compile(
    r"size of tensor a \((\d+)\) must match the size of tensor b \((\d+)\) at non-singleton dimension (\d+)"
)
_PANIC = re.compile(r"mask key axis \((\d+)\) is (?:shorter|longer) than the returned key length \((\d+)\)")
_AXIS = re.compile(r"(?:concatenation axis is|along axis|axis) (\d+)")
_ROPE = re.compile(r"\[rope\] offset must be a scalar or vector with (\d+)")
_EMPTY = (
    "Cannot infer the shape of an empty array",
    "Cannot do a non-empty take",
    "Negative dimensions not allowed",
)
_CACHE_WORDS = ("merge", "extend", "extract", "filter", "update", "cache", "concatenate")
_ATTENTION_WORDS = ("attention", "sdpa", "mask", "softmax")


class Crash(msgspec.Struct, frozen=True, kw_only=True):
    """A shape error, read."""

    axis: str
    mask: Shape | None = None
    """The side that is the mask, or the one written into a larger array."""
    other: Shape | None = None
    """Attention scores, or the destination."""
    sizes: tuple[int, int] | None = None
    """The two lengths that do not agree: the mask's (or the source's) first."""

    @property
    def by(self) -> int | None:
        """By how much the second length exceeds the first."""
        return self.sizes[1] - self.sizes[0] if self.sizes else None


def read(text: str, shapes: Sequence[Shape] = (), where: str = "") -> Crash | None:
    """Read a shape error; `None` where the text is none.

    Args:
        text: as the program printed it, traceback and all.
        shapes: where a recorder took them from the error itself.
        where: the frame or phase it happened in ("merge"), which tells a cache merge from attention.
    """
    panic = _PANIC.search(text)
    if panic:
        return Crash(axis=KEYS, sizes=(int(panic[1]), int(panic[2])))
    torch = _TORCH.search(text)
    if torch:
        return _torch(int(torch[1]), int(torch[2]), int(torch[3]))
    if _ROPE.search(text):
        return Crash(axis=METADATA)
    if any(marker in text for marker in _EMPTY):
        return Crash(axis=EMPTY)
    found = _CAUSE.search(text)
    pair = [tuple(shape) for shape in shapes[:2]] or (_shapes(text, found.start()) if found else [])
    if len(pair) < 2:
        return None
    axis = _AXIS.search(text)
    return _compare(pair[0], pair[1], f"{where} {text}".lower(), int(axis[1]) if axis else None)


def _shapes(text: str, at: int) -> list[Shape]:
    """The two shapes of the message that matched at `at`: on its own line, where they may stand before it."""
    line = text.rfind("\n", 0, at) + 1
    found = [tuple(int(size) for size in one.split(",")) for one in _SHAPE.findall(text, line)]
    named = [shape for shape in found if len(shape) > 1]
    return named[:2] if len(named) >= 2 else found[:2]


def _torch(a: int, b: int, dimension: int) -> Crash:
    """`scores + mask` in eager attention: tensor a is the scores, b the mask; dimension 3 holds the keys."""
    axis = {3: KEYS, 2: QUERIES, 0: BATCH}.get(dimension, LENGTH)
    return Crash(axis=axis, sizes=(b, a))


def _compare(one: Shape, two: Shape, text: str, joined: int | None) -> Crash | None:
    """Tell attention (a mask of fewer axes, or one without heads) from a cache merge (keys and values)."""
    written = "cannot broadcast array" in text
    small, large = (one, two) if written or _is_mask(one, two) else (two, one)
    differing = _differing(small, large, joined, written)
    if not differing:
        return None
    attention = any(word in text for word in _ATTENTION_WORDS)
    cache = not attention and any(word in text for word in _CACHE_WORDS)
    four = len(small) == len(large) == 4
    if differing == [-1] or (-1 in differing and len(small) < 4):
        axis = KEYS if not (four and cache) else METADATA
    elif -2 in differing:
        axis = LENGTH if four and not attention and small[-1] == large[-1] else QUERIES
    elif -len(large) in differing:
        axis = BATCH if four else METADATA
    else:
        axis = METADATA
    at = {KEYS: -1, QUERIES: -2, LENGTH: -2}.get(axis, differing[0])
    return Crash(axis=axis, mask=small, other=large, sizes=(small[at], large[at]))


def _is_mask(one: Shape, two: Shape) -> bool:
    """Whether the first of two shapes is the mask: it has fewer axes, or no heads axis of its own."""
    if len(one) != len(two):
        return len(one) < len(two)
    return len(one) < 4 or one[1] <= two[1]


def _differing(small: Shape, large: Shape, joined: int | None, written: bool) -> list[int]:
    """Axes, counted from the end, that cannot be broadcast.

    A concatenation's own axis may differ, and no other; an array written into another must not be wider.
    """
    skip = None if joined is None or len(small) != len(large) else joined - len(large)
    differing = []
    for i in range(1, min(len(small), len(large)) + 1):
        a, b = small[-i], large[-i]
        stretches = skip is None and (a == 1 or (b == 1 and not written))
        if -i != skip and a != b and not stretches:
            differing.append(-i)
    return differing
