"""The requests of a packed forward: continuous batching puts several into one row, behind one another."""

from __future__ import annotations

import msgspec
import numpy as np

from mlxdiag.models.content import Ints
from mlxdiag.models.events import Feeding
from mlxdiag.models.identity import PADDING


class Packed(msgspec.Struct, frozen=True):
    """One request in a packed forward."""

    request: str
    offset: int
    """Position of its first token in this forward."""
    tokens: int


class Packing:
    """The requests of one forward, in order, and what they are fed."""

    def __init__(self, members: list[Packed], numbers: dict[str, int], feeding: Feeding | None) -> None:
        """`numbers` gives every request its sequence number, new ones the next."""
        self.members = members
        width = max((member.tokens for member in members), default=0)
        columns = np.arange(width)[None]
        lengths = np.array([member.tokens for member in members])[:, None]
        offsets = np.array([member.offset for member in members])[:, None]
        self.feeding = feeding or Feeding(
            [numbers.setdefault(member.request, len(numbers)) for member in members],
            offsets + columns,
            columns < lengths,
        )
        """[requests, longest]: their tokens, padded on the right."""

    def flat(self, length: int) -> tuple[Ints, Ints]:
        """Sequence and position of each of `length` packed columns, [1, length]; the rest is padding."""
        real = self.feeding.real
        seqs = np.repeat(np.array(self.feeding.seq)[:, None], real.shape[1], axis=1)[real]
        positions = self.feeding.positions[real]
        more = (0, length - len(seqs))
        return (
            np.pad(seqs, more, constant_values=PADDING)[None],
            np.pad(positions, more, constant_values=-1)[None],
        )

    def by_request(self, visible: Ints) -> Ints:
        """What packed queries see, [1, packed, K], as rows of requests [requests, longest, K]."""
        real = self.feeding.real
        rows = np.zeros((*real.shape, visible.shape[-1]), np.bool_)
        rows[real] = visible[0, : int(real.sum())]
        return rows
