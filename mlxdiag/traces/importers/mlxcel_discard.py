"""One line "mask shorter than key length" of mlxcel, and what it says by itself.

The scheduler's mask has `kv_offset + q` columns; prompt pieces are padded to 32 tokens on some machines.
Builds that print `query_len` fall back to windowed causal attention. Before 2026-06-24 no build did: keys
were sliced to the window.
"""

from __future__ import annotations

import re

import msgspec

TILE = 32
"""Tokens that a prompt piece is padded to."""
PROMPT = ("prefill", "chunked_prefill_start", "chunked_prefill_continue")
VERIFY = "speculative_slice_round"

_DATE = re.compile(r"\b(20\d\d-\d\d-\d\d)[T ]\d\d:")
_WINDOWED_SINCE = "2026-06-24"

WHY = {
    "windowed": "builds that print query_len fall back to windowed causal attention",
    "sliced": f"no build before {_WINDOWED_SINCE} did anything else",
}
"""How the fallback follows."""


class Discard(msgspec.Struct, frozen=True, kw_only=True):
    """Lengths in tokens; None where the line does not say."""

    kind: str | None
    """The span that it was printed in."""
    seq: str | None
    m: int
    k: int
    q: int | None
    offset: int | None
    total: int | None
    slice: int | None
    chunk: int | None
    text: str

    def of_prompt(self) -> bool:
        """Whether it belongs to a piece of a prompt whose place is known."""
        return self.kind in PROMPT and self.offset is not None

    def due(self) -> int | None:
        """Tokens of the piece: what is left of the prompt, and no more than a chunk."""
        if self.offset is None or self.total is None:
            return None
        left = max(self.total - self.offset, 0)
        return min(left, self.chunk) if self.chunk else left

    def queries(self) -> int | None:
        """Query length: printed, or the mask's own where that is the piece, padded or not, built at
        offset 0."""
        due = self.due()
        if self.q is not None or due is None:
            return self.q
        if self.m in (due, tiles(due)) or self.k - self.m == self.offset:
            return self.m
        return None

    def fallback(self) -> str | None:
        """What the build does without the mask; None where neither the line's form nor its date proves it."""
        if self.q is not None or "DEBUG" in self.text:
            return "windowed"
        date = _DATE.search(self.text)
        return "sliced" if date and date[1] < _WINDOWED_SINCE else None

    def is_verify(self, window: int | None) -> bool:
        """Whether the span says so, or lengths alone do: `m = W - 1 + q` columns, and more keys than any ring
        but a buffered one returns."""
        if self.kind == VERIFY:
            return True
        if self.kind in PROMPT or window is None or self.m < window + 1:
            return False
        q = self.m - window + 1
        return self.q in (None, q) and self.k - q >= window


def tiles(tokens: int) -> int:
    """`tokens` padded to whole tiles."""
    return -(-tokens // TILE) * TILE
