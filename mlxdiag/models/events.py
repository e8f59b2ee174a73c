"""What the probe tells its sink: one event per forward and one per cache operation. Plain data, never an
array.

`None` means not observed, save for `mask`, where `UNSET` does and `None` is the observation that no mask
was given.
"""

from __future__ import annotations

import itertools
from typing import Any

import msgspec
import numpy as np
from msgspec import UNSET, UnsetType

Offset = int | list[int] | None
UIDS = itertools.count(1)
"""Of caches, whichever library's: one process may run two."""


class Seen(msgspec.Struct):
    """What one attention call really attended; visibility level only. K is the key axis that was attended."""

    mask: np.ndarray[Any, Any]
    """Boolean [B or 1, q, K]: True where a query sees a key. Expanded where the call had "causal" or no
    mask.
    """
    key_seq: np.ndarray[Any, Any]
    """[B, K]: the sequence that each key belongs to; see `identity` for the negative codes."""
    key_pos: np.ndarray[Any, Any]
    """[B, K]: its absolute position; -1 for padding, unknown and ambiguous keys."""
    query_seq: np.ndarray[Any, Any]
    """[B]"""
    query_pos: np.ndarray[Any, Any]
    """[B, q]"""
    query_real: np.ndarray[Any, Any]
    """[B, q]: False where the query is padding."""
    ambiguous: int = 0
    """Keys whose content was inserted at several positions, so that they cannot be told apart."""


class AttentionEvent(msgspec.Struct, eq=False, gc=False):
    """One attention call of one layer. Lengths count tokens; offsets are those before the call."""

    layer: int | None
    index: int | None
    """Place of the cache in the prompt cache list."""
    name: str | None
    """Class of the cache."""
    kind: str | None
    """Kind of the cache, in the words of `traces.types.CACHE_KINDS`; None where there is no cache."""
    window: int | None
    keep: int | None
    slack: int | None
    kv_bits: int | None
    offset: Offset
    """A list, one per row, for batch caches whose rows are known without reading an array."""
    cursor: int | None
    """The cache's own counter: the batch cursor of batch caches, else the offset."""
    live_start: int | None
    live: int | None
    buffer: int | None
    """Key slots allocated before the call."""
    q: int
    rope: Offset = None
    left_padding: list[int] | None = None
    vectors: dict[str, int] | None = None
    """Lengths of the cache's per-row arrays."""
    k: int | None = None
    """Keys that the cache returned (those of the owner, on a layer that borrows its keys)."""
    ks: list[int] | None = None
    """Of packed rows: the keys of each, of which `k` is the sum."""
    k_seen: int | None = None
    """Keys that the attention call was handed."""
    mask: tuple[int, ...] | str | UnsetType | None = UNSET
    sinks: bool | None = None
    owner: int | None = None
    """The earlier layer whose keys this one borrows."""
    part: int = 0
    """Which member of a compound cache it was: some layers keep several kinds of keys."""
    manual: bool = False
    """The softmax was computed by hand: the mask is the layer's own argument."""
    fate: str | None = None
    fallback: str | None = None
    seen: Seen | None = None
    builder: str | None = None
    """What its array mask was made as, where that is known: causal, or window."""
    key_padding: int | None = None
    """Columns of the 2-D padding mask that its mask was made with."""
    opaque: bool = False
    """Made by a function that the probe does not know: what it does with its mask is not observed."""
    digest: int | None = None
    """Place of its mask's digest in `StepEvent.digests`; digest level only."""


Update = tuple[Any, ...]
"""A cache update in short, as the hot path keeps it: layer, tag, left paddings, and what equal layers share:
(the tag's `alike`, the counters before it, q, k, rope, lengths of the per-row arrays).
"""
Call = tuple[Update, Any, bool]
"""An attention call over the keys of its own update, in short: the update, the mask's shape, sinks."""


def event_of_update(update: Update) -> AttentionEvent:
    """The same in full, before its attention call."""
    layer, tag, left, (alike, before, q, k, rope, vectors) = update
    # A layer that the call itself makes is known by nothing before it.
    kind, window, keep, slack, bits = alike if alike is not None else ("unknown", None, None, None, None)
    offset, cursor, start, live, buffer = before
    event = AttentionEvent(
        layer, None, None, kind, window, keep, slack, bits, offset, cursor, start, live, buffer, q, rope, left
    )
    event.k = k
    if vectors is not None:
        event.vectors = {"offset": vectors[0], "left_padding": vectors[1]}
    if tag is not None:
        event.index, event.name, event.part = tag.index, tag.name, tag.part
    return event


def in_full(event: AttentionEvent | Update) -> AttentionEvent:
    """What the hot path keeps in short, as an event."""
    return event_of_update(event) if type(event) is tuple else event  # type: ignore[return-value]


def event_of_call(call: Call) -> AttentionEvent:
    """The same in full."""
    update, mask, sinks = call
    event = event_of_update(update)
    event.k_seen, event.mask, event.sinks = event.k, mask, sinks
    return event


class StepEvent(msgspec.Struct):
    """One forward of a model, delivered when its graph is built and before anything is evaluated."""

    model: str
    """m1, m2, ... in the order in which models were first seen."""
    batch: int
    q: int
    calls: list[AttentionEvent | Call] = []
    """Attention calls, some of them in short: `attention` has them in full."""
    error: str | None = None
    """Text of the exception that building the graph raised; it goes on to the caller unchanged."""
    error_type: str | None = None
    error_layer: int | None = None
    uids: list[int] = []
    """The caches that the forward was given, members of a compound one by one, named as in `CacheEvent`."""
    packed: list[tuple[str, int, int]] | None = None
    """Of a forward that holds several requests in one row: id, offset and tokens of each, in order."""
    right_padding: list[int] | None = None
    """Padding at the end of each row, where the program's own mask tells of some."""
    unseen: str | None = None
    """Why nothing of the forward was observed, where the probe knows of it and could not look."""
    digests: list[tuple[Any, Any]] = []
    """Digest level only: each mask and its lazy digest, the one exception to "never an array"."""

    @property
    def attention(self) -> list[AttentionEvent]:
        """Every attention call, in the order in which they were made."""
        calls: list[Any] = self.calls
        for index, call in enumerate(calls):
            if type(call) is tuple:
                calls[index] = event_of_call(call)
        return calls

    @property
    def offset(self) -> Offset:
        """Of the first cache that counts."""
        for call in self.calls:
            offset: Offset = call[0][3][1][0] if type(call) is tuple else call.offset  # type: ignore[union-attr]
            if offset is not None:
                return offset
        return None

    @property
    def left_padding(self) -> list[int] | None:
        """Of the rows: as a plain batch cache has it where there is one, since a ring overwrites its own."""
        found: list[int] | None = None
        for call in self.calls:
            if type(call) is tuple:
                kind, left = call[0][3][0][0], call[0][2]
            else:
                kind, left = call.kind, call.left_padding  # type: ignore[union-attr]
            if left is not None:
                if kind == "batch":
                    return left  # type: ignore[no-any-return]
                found = left if found is None else found
        return found


class CacheEvent(msgspec.Struct):
    """One operation on a cache outside a forward. Caches are named by `uid`, which is unique within the
    process.
    """

    op: str
    """trim, trim_front, prepare, finalize, filter, extend, extract, merge, to_quantized or copy."""
    uid: int
    name: str
    kind: str
    index: int | None = None
    layer: int | None = None
    before: Offset = None
    """Offset before the operation."""
    after: Offset = None
    asked: int | None = None
    done: int | None = None
    slack: int | None = None
    """Trim of a ring: keys that it held beyond its window, where they are enough to take back all that was
    asked."""
    rows: list[int] | None = None
    """Batch rows kept by a filter, or the row extracted."""
    parents: list[int] = []
    """Caches that went into a merge, an extend, an extract, a copy or a conversion."""
    declared: list[int] | None = None
    """Merge: the length that each row's cache reports."""
    sizes: list[int] | None = None
    """Merge: the length that each row's key array can give."""
    kv_bits: int | None = None
    error: str | None = None
    model: str | None = None
    """The model that has run over this cache, or over the one that it came from."""


class Feeding(msgspec.Struct):
    """What the driver feeds next, for the visibility level."""

    seq: list[int]
    """Sequence number of each row, >= 0."""
    positions: np.ndarray[Any, Any]
    """[B, L]: absolute position of each token; any value where it is padding."""
    real: np.ndarray[Any, Any]
    """Boolean [B, L]: False where the token is padding."""
    padding_known: bool = True
    """Whether `real` says so; False: nobody knows, and all of them are taken for real."""


Event = StepEvent | CacheEvent
