"""Synthetic prompts: no token repeated, none of them special, the same for everyone with the same seed.

Keys are told apart by their content, and a layer without positional encoding gives equal keys to equal
tokens; so no token stands twice in a sequence.
"""

from __future__ import annotations

import msgspec
import numpy as np
from numpy.typing import NDArray

from mlxdiag.errors import UnjudgedError
from mlxdiag.replay import tape
from mlxdiag.replay.ops import Adopt, Plan
from mlxdiag.traces.types import Tokens

Ids = NDArray[np.int32]

PADDING_ID = 0
"""What servers pad with."""


def special_ids(tokens: Tokens | None, vocab: int) -> set[int]:
    """Ids that a probe prompt must not hold: padding, end, control and reserved ones."""
    ids = {PADDING_ID}
    if tokens is not None:
        ids |= {tokens.pad} if tokens.pad is not None else set()
        ids |= set(tokens.eos or []) | set(tokens.control or [])
        for first, last in tokens.reserved or []:
            ids |= set(range(max(first, 0), min(last, vocab - 1) + 1))
    return {i for i in ids if 0 <= i < vocab}


class Prompt(msgspec.Struct, frozen=True):
    """Ids of one sequence: even generations take the first half of `ids`, odd ones the second."""

    ids: Ids
    half: int
    foreign: Ids

    def of(self, codes: list[int]) -> Ids:
        """Ids int32 `[n]` for token codes; padding is PADDING_ID."""
        at = np.asarray(codes, dtype=np.int64)
        where = at & ((1 << tape.BITS) - 1)
        generation = at >> tape.BITS
        elsewhere = (at < 0) | (generation == tape.FOREIGN)
        own = self.ids[np.where(elsewhere, 0, where + (generation % 2) * self.half)]
        strange = self.foreign[np.minimum(where, len(self.foreign) - 1)] if len(self.foreign) else own
        picked = np.where(generation == tape.FOREIGN, strange, own)
        return np.where(at < 0, PADDING_ID, picked).astype(np.int32)


def prompts(plan: Plan, vocab: int, *, tokens: Tokens | None = None, seed: int = 0) -> dict[str, Prompt]:
    """The tokens of every sequence of the plan.

    Raises:
        UnjudgedError: the vocabulary is too small for a sequence without repeats.
    """
    usable = np.setdiff1d(np.arange(vocab, dtype=np.int32), sorted(special_ids(tokens, vocab)))
    made: dict[str, Prompt] = {}
    for index, (seq, length) in enumerate(sorted(plan.lengths.items())):
        feeds = [feed for op in plan.forwards for feed in op.feeds if feed.seq == seq]
        halves = 2 if any(feed.generation for feed in feeds) else 1
        entry = max((op.entry for op in plan.ops if isinstance(op, Adopt) and op.seq == seq), default=0)
        drawn = _draw(usable, halves * length + entry, seed * 1009 + index, seq)
        own = halves * length
        made[seq] = Prompt(drawn[:own], length if halves == 2 else 0, drawn[own:])
    for seq, (owner, common) in plan.shared.items():
        made[seq] = _sharing(made[seq], made[owner], common)
    return made


def _sharing(prompt: Prompt, owner: Prompt, common: int) -> Prompt:
    """The prompt with its first `common` tokens replaced by another sequence's; none of them comes again."""
    begin = owner.ids[:common]
    replaced = prompt.ids[:common]
    free = np.setdiff1d(replaced, begin)
    ids = prompt.ids.copy()
    again = np.isin(ids[common:], begin)
    ids[common:][again] = free[: int(again.sum())]
    ids[:common] = begin
    return Prompt(ids, prompt.half, prompt.foreign)


def needed(plan: Plan) -> int:
    """Different tokens that the longest sequence of the plan needs."""
    entries = {op.seq: op.entry for op in plan.ops if isinstance(op, Adopt)}
    return max(2 * length + entries.get(seq, 0) for seq, length in plan.lengths.items())


def _draw(usable: Ids, length: int, seed: int, seq: str) -> Ids:
    if length > len(usable):
        raise UnjudgedError(
            f"{seq} needs {length} different tokens and the model has {len(usable)} usable ones; "
            "keys could not be told apart"
        )
    return np.random.default_rng(seed).permutation(usable)[:length].astype(np.int32)
