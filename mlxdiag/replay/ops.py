"""The steps of an experiment as data: what the runner does to real model code, in order.

A start is the true index of a token in its sequence, whatever the caches and the scheduler count.
"""

from __future__ import annotations

from typing import Any

import msgspec

from mlxdiag.replay.tape import PAD, code
from mlxdiag.traces.types import Family, Scheduler


class Feed(msgspec.Struct, frozen=True, omit_defaults=True):
    """One row of a forward: `left` padding, `tokens` real tokens from `start` on, `right` padding."""

    seq: str
    start: int
    tokens: int
    left: int = 0
    right: int = 0
    generation: int = 0
    """How many tail trims the sequence has been through; see `tape`."""
    believed: int | None = None
    """Where the recorded scheduler thought the sequence was."""

    @property
    def width(self) -> int:
        return self.left + self.tokens + self.right

    @property
    def codes(self) -> list[int]:
        """Token codes by column, as `tape` writes them; -1 is padding."""
        first = code(self.start, self.generation)
        return [PAD] * self.left + list(range(first, first + self.tokens)) + [PAD] * self.right


class CallerMask(msgspec.Struct, frozen=True):
    """A mask built outside the model, shape `[q, m]`."""

    builder: str
    offset: int
    shape: tuple[int, int]
    real: int
    family: str | None = None
    window: int | None = None
    source: str | None = None


class Unmasked(msgspec.Struct, frozen=True):
    """Layers that were given no mask, or the library's plain "causal", where a mask of their own was due."""

    family: str | None
    causal: bool


class Forward(msgspec.Struct, frozen=True, tag="forward"):
    step: int | None
    phase: str
    feeds: tuple[Feed, ...]
    callers: tuple[CallerMask, ...] = ()
    unmasked: tuple[Unmasked, ...] = ()
    sampled: tuple[int | None, ...] = ()
    """Query index that each row's next token was sampled from; None: the last real one."""
    batched: bool = False
    """Run on batch caches even when there is one row."""
    finalize_pending: bool = False
    assumed: str | None = None
    """Why this forward stands here though the trace does not hold it."""
    columns: int | None = None
    """Columns of the 2-D padding mask, where the program passed fewer than there are tokens."""
    cacheless: bool = False
    """The model is given no cache: these are all tokens of its sequences, whatever was fed before."""
    anew: tuple[str, ...] = ()
    """Sequences that are fed from their first token again, on fresh caches."""

    @property
    def again(self) -> tuple[str, ...]:
        """Sequences of which nothing that was fed before counts any more."""
        return tuple(feed.seq for feed in self.feeds) if self.cacheless else self.anew

    @property
    def width(self) -> int:
        return max(feed.width for feed in self.feeds)


class Cut(msgspec.Struct, frozen=True, tag="cut"):
    """Tail trim (`trim`) or speculative `rollback` of `tokens` on every layer of one sequence or batch."""

    step: int | None
    phase: str
    seqs: tuple[str, ...]
    tokens: int
    kept: dict[str, int] = {}
    """Of these tokens, how many the recorded caches did not give back, by family; "" for every family."""


class Evict(msgspec.Struct, frozen=True, tag="evict"):
    """Front trim of the dense layers down to `cap` live keys, the first `sinks` kept."""

    step: int | None
    seqs: tuple[str, ...]
    cap: int
    sinks: int = 0


class Adopt(msgspec.Struct, frozen=True, tag="adopt"):
    """Start `seq` from a stored prefix: `entry` tokens, `matched` of them its own, `trimmed` cut off."""

    step: int | None
    seq: str
    matched: int
    entry: int
    trimmed: int
    whole: bool = False
    """The trace says that the prompt ends with what matched: nothing is left of the request to be fed."""


class Regroup(msgspec.Struct, frozen=True, tag="regroup"):
    """From here on these sequences, in this order, are the rows of one batch."""

    step: int | None
    phase: str
    seqs: tuple[str, ...]


class Event(msgspec.Struct, frozen=True, tag="event"):
    """finalize, save, load, extract or quantize on the caches of these sequences."""

    step: int | None
    phase: str
    seqs: tuple[str, ...]
    bits: int | None = None


Op = Forward | Cut | Evict | Adopt | Regroup | Event


class CacheChoice(msgspec.Struct, frozen=True):
    """The cache of a layer family where it is not the library's own choice."""

    kind: str
    slack: int = 0
    sinks: int = 0
    cap: int = 0
    """Keys that the library's own cap leaves: all layers then come from `make_prompt_cache(max_kv_size)`."""
    why: str = ""


class Plan(msgspec.Struct, frozen=True):
    """What would run. Pure data: nothing in it needs a model, an array or a file."""

    source: str
    architecture: str
    config: dict[str, Any]
    families: dict[str, Family]
    caches: dict[str, CacheChoice]
    ops: tuple[Op, ...]
    lengths: dict[str, int]
    """Real tokens fed, by sequence."""
    shared: dict[str, tuple[str, int]]
    """Sequences that begin with another one's tokens: owner and common length."""
    scheduler: Scheduler
    misfit: str
    undecided: bool = False
    """Masks were dropped and the trace does not say for what: one policy cannot speak for it."""
    planted: tuple[str, ...] = ()
    """What is put in on purpose because the installed library does it right."""
    notes: tuple[str, ...] = ()

    @property
    def forwards(self) -> list[Forward]:
        return [op for op in self.ops if isinstance(op, Forward)]
