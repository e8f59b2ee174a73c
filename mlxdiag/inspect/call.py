"""One attention call with everything the rules ask of it worked out once. Pure numbers, no arrays."""

from __future__ import annotations

import msgspec

from mlxdiag.traces.types import Attention, Entry


class Call(msgspec.Struct, kw_only=True):
    """`None` means not observed throughout. Notation of the fields: lengths in tokens, see `geometry.py`."""

    entry: Entry
    attention: Attention
    index: int
    """Position in the entry's attention list."""
    family: str | None = None
    kind: str | None = None
    """What the *config* says the layer is: full, sliding, chunked or recurrent."""
    cache: str | None = None
    window: int | None = None
    keep: int = 0
    slack: int = 0
    q: int | None = None
    k: int | None = None
    """Returned key length (of the row where it is a list of equal ones; paged lists are summed by the rule)."""
    mask_kind: str | None = None
    """none, causal or array; None where the mask was not observed."""
    m: int | None = None
    """Key axis of an array mask."""
    mask_q: int | None = None
    mask_batch: int | None = None
    batch: int | None = None
    cursor: int | None = None
    """The cache's own integer before the call: the batch cursor for batch caches, else the offset."""
    offsets: list[int] | None = None
    """Per row, before the call: the position of each row's next token."""
    live_start: int = 0
    live: int | None = None
    """`cursor - live_start`: keys held before the call."""
    kept: int | None = None
    """`min(cursor, window - 1)`."""
    fallback: str | None = None
    fate: str | None = None
    crop: str | None = None
