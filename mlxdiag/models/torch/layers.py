"""Cache layers that transformers lacks, to be driven through its real model code.

Keys and values are [B, H, L, D]; lengths count tokens.
"""

from __future__ import annotations

from typing import Any

import torch
from transformers.cache_utils import DynamicLayer


class FrontTrimLayer(DynamicLayer):  # type: ignore[misc]
    """A full layer whose oldest keys may be dropped while positions go on, as servers do under a key cap.

    Its offset counts every token seen; the mask is sized to the keys that are left.
    """

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
