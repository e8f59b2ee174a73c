"""How many keys a cache must return, and what a capped mask hides: arithmetic on lengths, no arrays.

Notation: `q` tokens of the call, `cursor` the cache's own count before it, `W` the window (the query counts
itself), `live` the keys held before the call. Lengths count tokens; the physical buffer is never a length.
Sources: mlx-lm `models/cache.py`, transformers `cache_utils.py`, and the rotating caches of mlxcel.
"""

from __future__ import annotations

Bounds = tuple[int, int]
"""Smallest and largest legal key count, both included."""


def kept(cursor: int, window: int, keep: int = 0) -> int:
    """Prior keys that a bounded cache still returns to a call of several tokens.

    The window counts the query, so `W - 1` prior keys are enough. Pinned sinks are part of the window while
    `W > keep + 1`; at or below that the sinks alone are left once a trim cuts in.
    """
    if cursor <= window - 1:
        return cursor
    return max(window - 1, min(keep, cursor))


def returned_bounds(
    cache: str,
    q: int,
    cursor: int,
    *,
    window: int | None = None,
    keep: int = 0,
    slack: int = 0,
    live: int | None = None,
    buffer: int | None = None,
) -> Bounds | None:
    """Legal key counts of one call; `None` when the kind needs something that was not observed.

    Args:
        cache: one of `traces.types.CACHE_KINDS`.
        q: query length, pad tokens included.
        cursor: before the call; the batch cursor for batch caches.
        window: the cache's bound, not the attention's.
        live: keys held before the call where they differ from what `cursor` implies (a front trim, a start
            position, the visible part of a buffered cache).
        buffer: physical width, for static caches.
    """
    if cache in ("dense", "quantized", "batch"):
        held = cursor if live is None else live
        return held + q, held + q
    if cache in ("rotating", "batch_rotating"):
        return None if window is None else _exact(_rotating(q, cursor, window, keep))
    if cache == "buffered":
        return None if window is None else _buffered(q, cursor, window, slack, live)
    if cache == "chunked":
        held = live if live is not None else min(cursor, window if window is not None else cursor)
        return held + q, held + q
    if cache == "static":
        return None if buffer is None else (buffer, buffer)
    if cache == "static_sliding":
        return None if window is None else _exact(_static_sliding(q, cursor, window, buffer))
    if cache == "paged":
        low = cursor if window is None else min(cursor, window - 1)
        return low + q, cursor + q
    return None


def returned_keys(
    cache: str,
    q: int,
    cursor: int,
    *,
    window: int | None = None,
    keep: int = 0,
    slack: int = 0,
    live: int | None = None,
    buffer: int | None = None,
) -> int | None:
    """The one legal key count, or `None` where several are legal or too little was observed."""
    bounds = returned_bounds(
        cache, q, cursor, window=window, keep=keep, slack=slack, live=live, buffer=buffer
    )
    return bounds[0] if bounds and bounds[0] == bounds[1] else None


def _exact(length: int) -> Bounds:
    return length, length


def _rotating(q: int, cursor: int, window: int, keep: int) -> int:
    """A fresh cache returns all `q` keys even past the window; the ring bounds single tokens only."""
    return min(cursor + 1, window) if q == 1 else kept(cursor, window, keep) + q


def _buffered(q: int, cursor: int, window: int, slack: int, live: int | None) -> Bounds:
    """Grows uncompacted up to `W + max(slack, q)`, then falls back to `W - 1 + q`."""
    target = window + max(slack, q)
    if live is not None:
        return _exact(live + q if live + q <= target else min(live, window - 1) + q)
    return min(cursor, window - 1) + q, max(min(cursor + q, target), min(cursor, window - 1) + q)


def _static_sliding(q: int, cursor: int, window: int, buffer: int | None) -> int:
    size = window if buffer is None else min(window, buffer)
    if cursor >= size:
        return size - 1 + q
    return cursor + q if cursor + q > size else size


def empty_rows(q: int, window: int) -> int:
    """Rows of a capped `[q, W]` mask that see no key: rows before `q - W`."""
    return max(q - window, 0)


def narrowed_rows(q: int, live: int, window: int) -> int:
    """Rows of a capped `[q, W]` mask that see some of their window but not all of it.

    Row i sees `i + W - q + 1` keys of the last W, where `min(live + i + 1, W)` are required.
    """
    return sum(1 for i in range(empty_rows(q, window), q) if i + window - q + 1 < min(live + i + 1, window))


def required_count(kind: str, position: int, window: int | None, live_start: int = 0) -> int | None:
    """Positions that a query at `position` must see, itself included; `None` where the window is unknown.

    Full: every live one. Sliding: `[max(0, p - W + 1), p]`. Chunked: the same block up to p. A start later
    than that (a key cap) cuts all of them.
    """
    if position < 0:
        return 0
    if kind == "full":
        oldest = 0
    elif window is None:
        return None
    elif kind == "sliding":
        oldest = max(0, position - window + 1)
    elif kind == "chunked":
        oldest = position // window * window
    else:
        return None
    return position - max(oldest, live_start) + 1
