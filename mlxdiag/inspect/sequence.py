"""One sequence: its cache as it must be, from the record alone."""

from __future__ import annotations

from typing import NamedTuple

from mlxdiag.inspect.facts import Facts
from mlxdiag.traces.types import Attention, Entry, Row


class Verify(NamedTuple):
    """A speculative block that may have to be rolled back."""

    step: int | None
    start: int
    end: int


class Trim(NamedTuple):
    """A trim or rollback that no forward has confirmed yet."""

    phase: str
    step: int | None
    held: int | None
    """Tokens in the cache before, padding included."""
    pads: int
    """How many of them were padding."""
    asked: int | None
    done: int | None
    layers: tuple[Attention, ...]
    refused: str | None
    verify: Verify | None
    """The block that a rollback cuts."""

    @property
    def honoured(self) -> bool:
        """Done as asked, as far as that is recorded: a later trim may then take its place."""
        return self.asked is None or self.done is None or self.asked == self.done


class Sequence:
    """One sequence's cache as it must be, from the record alone. `None` is unknown."""

    __slots__ = (
        "adopted",
        "decoded",
        "fed",
        "kinds",
        "layers",
        "other",
        "padded",
        "pads",
        "pending",
        "position",
        "rings",
        "seq",
        "settled",
        "start",
        "trim",
        "trimmed",
        "verify",
    )

    def __init__(self, seq: str | None) -> None:
        self.seq = seq
        self.position: int | None = None
        """Position of the next real token."""
        self.other: range | None = None
        """Further legal ones: after a verify whose rollback need not be recorded."""
        self.start = 0
        self.fed = 0
        self.trimmed = 0
        self.pads = 0
        """Padding behind the last real token that no trim or finalize has removed."""
        self.padded = False
        self.pending = False
        """A batch was right-padded and is not finalized: wholly padded rows have no position."""
        self.decoded = False
        self.settled = False
        """Nothing is outstanding: one comparison of offsets decides whether the next decode is healthy."""
        self.adopted: Row | None = None
        self.trim: Trim | None = None
        self.verify: Verify | None = None
        self.kinds: dict[str | None, str] = {}
        self.layers: int | None = None
        self.rings: dict[str | None, int | None] = {}
        """Bound of each family's plain ring at the last forward that named its caches; None for others."""

    def restart(self, position: int) -> None:
        """The engine feeds the prompt again from its first token; below 0 where left padding precedes it."""
        self.position, self.other, self.start = position, None, 0
        self.fed = self.trimmed = self.pads = 0
        self.padded = self.pending = self.decoded = False


RINGS = ("rotating", "batch_rotating", "static_sliding")
"""Caches that overwrite what they would have to give back."""


def ring_bound(call: Attention, facts: Facts) -> int | None:
    """Bound of the layer's ring; None where it keeps all keys, or has slack to give some back."""
    if (call.cache or facts.cache) not in RINGS or call.slack or facts.slack:
        return None
    return call.window if call.window is not None else facts.window


def asked_and_done(entry: Entry, row: Row) -> tuple[int | None, int | None]:
    """Tokens of a trim asked back and given back; where only layers tell, what the slowest one did."""
    calls = entry.attention or ()
    asked, done = row.asked, row.done
    if asked is None:
        asked = max((call.asked for call in calls if call.asked is not None), default=None)
    if done is None:
        done = min((call.done for call in calls if call.done is not None), default=None)
    return asked, done


def offset_at(call: Attention, index: int) -> int | None:
    """Offset of row `index` before the call; one integer stands for rows that are equal."""
    offset = call.offset
    if isinstance(offset, list):
        return offset[index] if index < len(offset) else None
    return offset


def agree(calls: list[Attention]) -> bool:
    """Every layer reports the same offsets, and gave its rotary encoding exactly them."""
    first = calls[0].offset if calls else None
    return all(
        (call.offset is None or call.offset == first) and (call.rope is None or call.rope == call.offset)
        for call in calls
    )


def adopted_length(row: Row) -> int | None:
    """Tokens that an adoption leaves in the cache."""
    if row.restored is not None:
        return row.restored
    if row.entry is not None and row.trimmed is not None:
        return row.entry - row.trimmed
    return None


SAME_KEYS = {
    "batch": "dense",
    "batch_rotating": "rotating",
    "buffered": "rotating",
    "static_sliding": "rotating",
}
"""Kinds that a merge, an extract or speculation turns into one another with all keys kept."""


def cache_kinds(entry: Entry) -> tuple[dict[str | None, str], int | None]:
    """Cache kind by family (a batch form counts as its single form), and how many layers are listed."""
    calls = [call for call in entry.attention or () if call.cache is not None]
    kinds = {call.family: SAME_KEYS.get(call.cache or "", call.cache or "") for call in calls}
    counted = [len(call.layers) for call in calls if call.layers is not None]
    return kinds, sum(counted) if calls and len(counted) == len(calls) else None
