"""Cache layers that transformers lacks, to be driven through its real model code.

They behave as the caches of a Rust server did at one time or another, faults included (`models.mlx.caches`).
Keys and values are [B, H, L, D]; lengths count tokens.
"""

from __future__ import annotations

from typing import Any

import torch
from transformers.cache_utils import DynamicLayer, DynamicSlidingWindowLayer


class FrontTrimLayer(DynamicLayer):  # type: ignore[misc]
    """A full layer whose oldest keys may be dropped while positions go on, as servers do under a key cap.

    Its offset counts every token seen; the mask is sized to the keys that are left.
    """

    keys: Any
    values: Any

    def __init__(self) -> None:
        super().__init__()
        self.dropped = 0

    @property
    def live(self) -> int:
        """Keys held."""
        return int(super().get_seq_length())

    def get_seq_length(self) -> int:
        """Tokens seen."""
        return self.live + self.dropped

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        """Keys that the next call returns, and the position of the first."""
        return self.live + query_length, self.dropped

    def drop_front(self, count: int, sinks: int) -> int:
        """Drop `count` keys behind the first `sinks`; returns how many were dropped."""

        def kept(held: Any) -> Any:
            return torch.cat([held[..., :sinks, :], held[..., sinks + count :, :]], dim=-2)

        self.keys, self.values = kept(self.keys), kept(self.values)
        self.dropped += count
        return count


class ClampedSlidingLayer(DynamicSlidingWindowLayer):  # type: ignore[misc]
    """A window whose continuation stores and returns only the last W keys, the new ones included.

    A query then misses up to W - 1 keys of its window, and the mask agrees with the short keys. A first call
    keeps all of its keys; a single token finds what it must.
    """

    keys: Any
    values: Any

    def __init__(self, sliding_window: int) -> None:
        super().__init__(sliding_window)

    def update(self, key_states: Any, value_states: Any, *args: Any, **kwargs: Any) -> tuple[Any, Any]:
        """All of a first call's keys, then the last W."""
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        first = self.cumulative_length == 0
        self.cumulative_length += key_states.shape[-2]
        self.keys = torch.cat([self.keys, key_states], dim=-2)
        self.values = torch.cat([self.values, value_states], dim=-2)
        if not first:
            self.keys = self.keys[..., -self.sliding_window :, :]
            self.values = self.values[..., -self.sliding_window :, :]
        return self.keys, self.values

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        """Keys that the next call returns, and the position of the first."""
        seen = self.cumulative_length + query_length
        length = min(seen, self.sliding_window) if self.cumulative_length else query_length
        return length, seen - length


class BufferedSlidingLayer(DynamicLayer):  # type: ignore[misc]
    """A window with slack for speculation: appended to until it overflows, exact under `crop`.

    An append of n needs `live + n` slots; when that is more than `W + max(slack, n)` the oldest are dropped
    until W - 1 remain. Returned keys grow from W up to `W + max(slack, n)`; the mask for several tokens is
    sized to `min(live, W - 1) + n`, which is too short for them while the slack is in use.
    """

    is_sliding = True
    keys: Any
    values: Any

    def __init__(self, sliding_window: int, slack: int) -> None:
        super().__init__()
        self.sliding_window = sliding_window
        self.slack = slack
        self.cumulative_length = 0

    @property
    def live(self) -> int:
        """Keys held."""
        return int(super().get_seq_length())

    def get_seq_length(self) -> int:
        """Tokens seen."""
        return self.cumulative_length

    def dropped_by(self, count: int) -> int:
        """How many of the oldest keys an append of `count` drops first."""
        if self.live + count <= self.sliding_window + max(self.slack, count):
            return 0
        return max(self.live - self.sliding_window + 1, 0)

    def update(self, key_states: Any, value_states: Any, *args: Any, **kwargs: Any) -> tuple[Any, Any]:
        """Everything that is held then."""
        drop = self.dropped_by(key_states.shape[-2])
        if drop:
            self.keys, self.values = self.keys[..., drop:, :], self.values[..., drop:, :]
        self.cumulative_length += key_states.shape[-2]
        held: tuple[Any, Any] = super().update(key_states, value_states)
        return held

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        """For a single token what is returned, so that the mask can hide what is too old."""
        if query_length == 1:
            length = self.live - self.dropped_by(1) + 1
        else:
            length = min(self.live, self.sliding_window - 1) + query_length
        return length, self.cumulative_length + query_length - length

    def crop(self, tokens_to_remove: int) -> None:
        """Take back the newest `-tokens_to_remove` tokens."""
        held = self.live
        super().crop(tokens_to_remove)
        self.cumulative_length -= held - self.live
