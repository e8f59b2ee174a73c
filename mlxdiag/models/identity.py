"""Which token a key belongs to, told by its content.

Every key that a layer appends is remembered with its sequence and position, as a hash of the bytes of the
vector over all heads (after RoPE, and as the cache will hold it). A key that an attention call is handed is
then looked up, whatever the cache did to it in between: rotated, trimmed, merged, paged, copied. Keys of
zeros that were never appended (slots never written, padding of a merge) count as padding.

Layers have separate memories. Contents are compared by a 64-bit hash: at a million keys a layer, the chance
of one false match is about 3e-8. Each library's own part reads its arrays.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mlxdiag.errors import UsageError
from mlxdiag.models.content import Ints
from mlxdiag.models.events import AttentionEvent, Feeding, Seen

PADDING, UNKNOWN, AMBIGUOUS = -1, -2, -3
"""Codes in `Seen.key_seq`: padding, or a token taken back since; never appended under the probe; several
positions.
"""

BLOCKED = -1e4
"""Additive masks block with -inf or with the most negative number of their dtype, all of them below this."""


Where = tuple[str | None, int | None, int | None, int]
"""Model, layer, place of the cache in the list, and in a compound: a layer may keep several kinds of keys."""


class Memories:
    """The memory of one run. Runs that feed the same sequences again need a fresh one, or `clear`."""

    def __init__(self) -> None:
        self._layers: dict[Where, Memory] = {}

    def clear(self) -> None:
        self._layers.clear()

    def adopt(self, seq: int, source: int, length: int) -> None:
        """Sequence `seq` goes on from the first `length` tokens of `source`, whose keys are its own from
        now on.
        """
        for memory in self._layers.values():
            memory.adopt(seq, source, length)

    def remember(
        self, model: str | None, event: AttentionEvent, hashes: Ints, feeding: Feeding | None
    ) -> None:
        """New keys of a layer by their content, [B, L]."""
        fed = fed_by(event, feeding, *hashes.shape)
        seqs = np.where(fed.real, np.array(fed.seq)[:, None], PADDING)
        self._memory(model, event).insert(hashes, seqs, np.where(fed.real, fed.positions, -1))

    def rename(self, where: Where, old: Ints, new: Ints) -> None:
        """The keys with these contents have those from now on; both [B, L]."""
        self._layers.setdefault(where, Memory()).rename(old, new)

    def recognise(
        self,
        model: str | None,
        event: AttentionEvent,
        own: tuple[Ints, Ints],
        others: tuple[Ints, Ints],
        visible: Ints | None,
        feeding: Feeding | None,
    ) -> Seen | None:
        """What a call attends, from the contents of the keys that are attended and of those that the cache
        returned (hashes [B, K] and which are all 0), and `visible` [B or 1, q, K].

        None when `visible` is: the mask does not fit the keys, so that the call cannot run.
        """
        if visible is None:
            return None
        hashes, zero = own
        batch, length = hashes.shape
        fed = fed_by(event, feeding, batch, event.q)
        seqs = np.array(fed.seq)
        memory = self._memory(model, event)
        if event.kind is None and length != event.q:
            memory = self._holder(model, hashes) or memory
        elif event.kind is None:
            # Without a cache the keys are those of this very call, and nothing is held for the next one.
            memory = Memory()
            fresh = np.where(fed.real, seqs[:, None], PADDING)
            memory.insert(others[0], fresh, np.where(fed.real, fed.positions, -1))
        key_seq, key_pos, ambiguous = memory.look_up(hashes, zero, seqs)
        if (key_seq == UNKNOWN).all() and others is not own:
            # Some layers transform keys after the cache; their order is that of the returned ones.
            hashes, zero = others
            if hashes.shape == (batch, length):
                key_seq, key_pos, ambiguous = memory.look_up(hashes, zero, seqs)
        return Seen(visible, key_seq, key_pos, seqs, fed.positions, fed.real, ambiguous)

    def _holder(self, model: str | None, hashes: Ints) -> Memory | None:
        """The memory that knows all of these keys: a model may read an earlier layer's cache by itself."""
        wanted = set(hashes.ravel().tolist())
        memories = (memory for (of, *_), memory in self._layers.items() if of == model)
        return next((memory for memory in memories if memory.knows(wanted)), None)

    def _memory(self, model: str | None, event: AttentionEvent) -> Memory:
        layer = event.layer if event.owner is None else event.owner
        return self._layers.setdefault((model, layer, event.index, event.part), Memory())


class Memory:
    """Contents of one layer's keys. A later key of the same sequence and position makes an earlier one
    stale.
    """

    def __init__(self) -> None:
        self._index: dict[int, list[int]] = {}
        """Entries by content hash; more than one where equal keys were appended."""
        self._seq: list[int] = []
        self._pos: list[int] = []
        self._current: list[bool] = []
        self._latest: dict[tuple[int, int], int] = {}

    def knows(self, contents: set[int]) -> bool:
        return self._index.keys() >= contents

    def insert(self, hashes: Ints, seqs: Ints, positions: Ints) -> None:
        """All three [B, L]; padding has sequence -1 and position -1."""
        rows = zip(hashes.ravel().tolist(), seqs.ravel().tolist(), positions.ravel().tolist(), strict=True)
        for content, seq, position in rows:
            self._add(content, seq, position)

    def _add(self, content: int, seq: int, position: int) -> None:
        entries = self._index.setdefault(content, [])
        entry = next((e for e in entries if self._seq[e] == seq and self._pos[e] == position), None)
        if entry is None:
            entry = len(self._seq)
            entries.append(entry)
            self._seq.append(seq)
            self._pos.append(position)
            self._current.append(True)
        if seq == PADDING:
            return
        previous = self._latest.get((seq, position))
        if previous is not None:
            self._current[previous] = False
        self._latest[(seq, position)] = entry
        self._current[entry] = True

    def adopt(self, seq: int, source: int, length: int) -> None:
        for content, entries in list(self._index.items()):
            for entry in list(entries):
                if self._seq[entry] == source and self._pos[entry] < length and self._current[entry]:
                    self._add(content, seq, self._pos[entry])

    def rename(self, old: Ints, new: Ints) -> None:
        """The keys with these contents have those now; both [B, L]."""
        for before, after in zip(old.ravel().tolist(), new.ravel().tolist(), strict=True):
            for entry in list(self._index.get(before, ())):
                self._add(after, self._seq[entry], self._pos[entry])

    def look_up(self, hashes: Ints, zero: Ints, seqs: Ints) -> tuple[Ints, Ints, int]:
        """Sequence and position of each key [B, K], and how many are ambiguous. `seqs` are the rows' own,
        [B].
        """
        key_seq = np.full(hashes.shape, UNKNOWN, np.int64)
        key_pos = np.full(hashes.shape, -1, np.int64)
        ambiguous = 0
        for row, (contents, own) in enumerate(zip(hashes.tolist(), seqs.tolist(), strict=True)):
            found = [self._resolve(self._index.get(content, ()), own) for content in contents]
            key_seq[row] = [seq for seq, _ in found]
            key_pos[row] = [position for _, position in found]
            ambiguous += int((key_seq[row] == AMBIGUOUS).sum())
        key_seq[zero & (key_seq == UNKNOWN)] = PADDING  # a model may make keys of zeros, too
        return key_seq, key_pos, ambiguous

    def _resolve(self, entries: Any, own: int) -> tuple[int, int]:
        if not entries:
            return UNKNOWN, -1
        if len(entries) == 1:
            entry = entries[0]
            return (self._seq[entry], self._pos[entry]) if self._current[entry] else (PADDING, -1)
        current = [e for e in entries if self._current[e]]
        mine = [e for e in current if self._seq[e] == own]
        if len(mine) > 1:
            return AMBIGUOUS, -1
        pool = mine or [e for e in current if self._seq[e] != PADDING]
        return (self._seq[pool[0]], self._pos[pool[0]]) if pool else (PADDING, -1)


def fed_by(event: AttentionEvent, feeding: Feeding | None, batch: int, length: int) -> Feeding:
    """The feeding of this call; without one, rows are sequences 0, 1, ... and positions follow from the
    offset.

    Raises UsageError when the feeding has another shape than the forward.
    """
    if feeding is not None:
        shapes = (len(feeding.seq), feeding.positions.shape, feeding.real.shape)
        if shapes != (batch, (batch, length), (batch, length)):
            raise UsageError(f"feeding describes {shapes[1]} tokens, the forward has {(batch, length)}")
        return feeding
    offset = event.offset if event.offset is not None else 0
    starts = np.broadcast_to(np.asarray(offset), (batch,))
    positions = starts[:, None] + np.arange(length)
    return Feeding(list(range(batch)), positions, positions >= 0)


def visible_keys(mask: Ints | str | None, batch: int, q: int, length: int) -> Ints | None:
    """A mask as boolean [B or 1, q, K], heads merged; None where it does not fit. "causal" is lower-right
    aligned.
    """
    if mask is None:
        return np.ones((1, q, length), np.bool_)
    if isinstance(mask, str):
        return np.arange(length)[None, None] <= np.arange(length - q, length)[None, :, None]
    visible: Ints = mask if mask.dtype == np.bool_ else np.greater(mask, BLOCKED)
    if visible.ndim >= 3:
        heads = tuple(range(1, visible.ndim - 2)) if visible.ndim > 3 else 0
        visible = np.any(visible, axis=heads)
    while visible.ndim < 3:
        visible = visible[None]
    fits = visible.shape[-1] in (1, length) and visible.shape[-2] in (1, q) and visible.shape[0] in (1, batch)
    return np.broadcast_to(visible, (visible.shape[0], q, length)) if fits else None
