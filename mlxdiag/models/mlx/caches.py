"""KV caches that mlx-lm lacks, to be driven through its real model code.

They behave as the caches of a Rust server built on MLX did at one time or another, faults included, so that
a report from there can be replayed. Keys and values are [B, H, L, D] throughout and lengths count tokens;
`W` is the sliding window, which counts the query itself. `make_mask` has the library's meaning: the mask for
`n` new tokens before they are appended, as a boolean array, "causal", or None.
"""

from __future__ import annotations

from typing import Any, Self

import mlx.core as mx
from mlx_lm.models.base import create_causal_mask
from mlx_lm.models.cache import KVCache, RotatingKVCache, _BaseCache

Arrays = tuple[mx.array, mx.array]
Mask = Any


def capped_mask(length: int, offset: int, window: int) -> mx.array:
    """Boolean [length, min(offset + length, window)]: a window mask whose key axis is cut off at the window.

    Past the window, row q sees `k <= q + (window - length)`, so the first `max(length - window, 0)` rows see
    nothing.
    """
    if offset + length <= window:
        return create_causal_mask(length, offset, window_size=window)  # type: ignore[no-any-return]
    rows = mx.arange(length)[:, None]
    return mx.arange(window)[None] <= rows + (window - length)


class _Appending(_BaseCache):  # type: ignore[misc]
    """Keys and values held without spare slots: the buffer is exactly what the next call sees."""

    def __init__(self) -> None:
        self.keys: mx.array | None = None
        self.values: mx.array | None = None
        self.offset = 0

    @property
    def live(self) -> int:
        """Keys held."""
        return 0 if self.keys is None else int(self.keys.shape[2])

    def _append(self, keys: mx.array, values: mx.array) -> None:
        if self.keys is None or self.values is None:
            self.keys, self.values = keys, values
        else:
            self.keys = mx.concatenate([self.keys, keys], axis=2)
            self.values = mx.concatenate([self.values, values], axis=2)
        self.offset += keys.shape[2]

    def _cut(self, begin: int, end: int) -> None:
        """Drop the slots [begin, end)."""
        if self.keys is None or self.values is None or end <= begin:
            return
        if begin == 0 and end == self.live:
            self.keys = self.values = None
            return
        parts = [(a[..., :begin, :], a[..., end:, :]) for a in (self.keys, self.values)]
        self.keys, self.values = (mx.concatenate([a, b], axis=2) if begin else b for a, b in parts)

    def is_trimmable(self) -> bool:
        return True

    def trim(self, n: int) -> int:
        """Take back the `n` newest tokens, or all that are held; returns how many."""
        n = min(n, self.live)
        self._cut(self.live - n, self.live)
        self.offset -= n
        return n

    def size(self) -> int:
        return self.live

    def empty(self) -> bool:
        return self.keys is None

    @property
    def nbytes(self) -> int:
        if self.keys is None or self.values is None:
            return 0
        return int(self.keys.nbytes + self.values.nbytes)


class BufferedRotatingKVCache(_Appending):
    """A ring with slack for speculation: chronological, appended to until it overflows, exact under `trim`.

    An append of n needs `live + n` slots; when that is more than `W + max(slack, n)` the oldest are dropped
    until W - 1 remain. Returned keys are therefore uncompacted: they grow from W up to `W + max(slack, n)`.
    """

    def __init__(self, max_size: int, slack: int) -> None:
        super().__init__()
        self.max_size = max_size
        self.slack = slack

    @classmethod
    def from_rotating(cls, ring: RotatingKVCache, slack: int) -> Self:
        """Turn a prompt's ring into a speculative one: its newest `min(visible, W)` keys, in order."""
        cache = cls(ring.max_size, slack)
        if ring.keys is not None:
            first = -min(ring.size(), ring.max_size)
            cache.keys = ring._temporal_order(ring.keys)[..., first:, :]
            cache.values = ring._temporal_order(ring.values)[..., first:, :]
        cache.offset = ring.offset
        return cache

    @property
    def live_start(self) -> int:
        """Position of the oldest key held."""
        return self.offset - self.live

    def dropped_by(self, n: int) -> int:
        """How many of the oldest keys an append of `n` drops first."""
        if self.live + n <= self.max_size + max(self.slack, n):
            return 0
        oldest_needed = max(self.offset - self.max_size + 1, 0)
        return min(max(oldest_needed - self.live_start, 0), self.live)

    def update_and_fetch(self, keys: mx.array, values: mx.array) -> Arrays:
        self._cut(0, self.dropped_by(keys.shape[2]))
        self._append(keys, values)
        assert self.keys is not None
        assert self.values is not None
        return self.keys, self.values

    def make_mask(self, n: int, window_size: int | None = None, return_array: bool = False) -> Mask:
        """[n, min(live, W - 1) + n], which is too short for the returned keys while the slack is in use.

        A single query gets the newest W keys, as the server's attention does where it is given no mask.
        """
        window = window_size or self.max_size
        if n > 1 or return_array:
            return create_causal_mask(n, min(self.live, self.max_size - 1), window_size=window)
        returned = self.live - self.dropped_by(n) + n
        return None if returned <= window else mx.arange(returned)[None] >= returned - window

    @property
    def state(self) -> Any:
        return self.keys, self.values, self.offset, self.max_size, self.slack

    @state.setter
    def state(self, v: Any) -> None:
        self.keys, self.values, self.offset, self.max_size, self.slack = v


class FrontTrimKVCache(_Appending):
    """A dense cache under a key cap: the oldest keys go, the first `sinks` stay, positions go on counting."""

    def __init__(self, sinks: int = 4) -> None:
        super().__init__()
        self.sinks = sinks
        self.live_start = 0

    def trim_front(self, n: int) -> int:
        """Drop the `n` oldest keys; returns how many."""
        return self.trim_front_keep_sink(n, 0)

    def trim_front_keep_sink(self, n: int, sinks: int) -> int:
        """Drop the `n` keys after the first `min(sinks, live - n)`; returns how many."""
        n = min(n, self.live)
        kept = min(sinks, self.live - n)
        self._cut(kept, kept + n)
        self.live_start += n
        return n

    def cap(self, max_kv: int) -> int:
        """Bring the cache down to `max_kv` keys, as the server does after each step; returns the drop."""
        if self.live <= max_kv:
            return 0
        return self.trim_front_keep_sink(self.live - max_kv, min(self.sinks, max_kv - 1))

    def update_and_fetch(self, keys: mx.array, values: mx.array) -> Arrays:
        self._append(keys, values)
        assert self.keys is not None
        assert self.values is not None
        return self.keys, self.values

    def make_mask(self, n: int, window_size: int | None = None, return_array: bool = False) -> Mask:
        """Sized from the live keys, [n, live + n]: the offset counts the dropped ones too."""
        if window_size is not None or return_array:
            return create_causal_mask(n, self.live, window_size=window_size)
        return None if n == 1 else "causal"

    @property
    def state(self) -> Any:
        return self.keys, self.values, self.offset, self.live_start, self.sinks

    @state.setter
    def state(self, v: Any) -> None:
        self.keys, self.values, self.offset, self.live_start, self.sinks = v


class ClampedRotatingKVCache(RotatingKVCache):  # type: ignore[misc]
    """A ring whose continuation stores and returns only the last W keys, the new ones included.

    A query then misses up to W - 1 keys of its window, and the mask of the same period agrees with the short
    keys. A first call keeps all of its keys; single tokens behave as in `RotatingKVCache`.
    """

    def __init__(self, max_size: int) -> None:
        super().__init__(max_size=max_size, keep=0)
        self.keys: mx.array | None
        self.values: mx.array | None

    def _update_concat(self, keys: mx.array, values: mx.array) -> Arrays:
        if self.keys is not None:
            start = -self.max_size
            self.keys = mx.concatenate([self._temporal_order(self.keys), keys], axis=2)[..., start:, :]
            self.values = mx.concatenate([self._temporal_order(self.values), values], axis=2)[..., start:, :]
        else:
            self.keys, self.values = keys, values
        self.offset += keys.shape[2]
        self._idx = self.keys.shape[2]
        return self.keys, self.values

    def make_mask(self, n: int, window_size: int | None = None, return_array: bool = False) -> Mask:
        """First the whole band; later [n, min(kept + n, W)] with `kept = min(offset, max(W - n, 0))`."""
        if n == 1 and not return_array:
            return super().make_mask(n, window_size=window_size)
        window = window_size or self.max_size
        if self.offset == 0:
            return create_causal_mask(n, 0, window_size=window)
        return capped_mask(n, min(self.offset, max(self.max_size - n, 0)), self.max_size)


class SlicedKVCache(KVCache):  # type: ignore[misc]
    """A dense cache on a sliding layer, for a consumer that slices keys down to the mask.

    `capped` gives the mask of the period in which it was cut off at the window on a continuation.
    """

    def __init__(self, window: int, capped: bool = False) -> None:
        super().__init__()
        self.window = window
        self.capped = capped

    def make_mask(self, n: int, window_size: int | None = None, return_array: bool = False) -> Mask:
        """[n, offset + n], or [n, W] when capped. A single query gets none: its window is not enforced."""
        if n == 1 and not return_array:
            return None
        window = window_size or self.window
        if self.capped and self.offset:
            return capped_mask(n, self.offset, window)
        return create_causal_mask(n, self.offset, window_size=window)
