"""Rows of the forwards of a batch, as the scheduler counts them."""

from __future__ import annotations

import msgspec

from mlxdiag.models.events import StepEvent
from mlxdiag.record.recorder import Named
from mlxdiag.traces.types import Row


class Sequence(msgspec.Struct, eq=False):
    """One request in a batch. Lengths count tokens."""

    name: str
    base: int = 0
    """Tokens in its cache that the scheduler's own list does not hold."""
    total: int = 0
    """Length of the whole prompt, what its cache held included."""
    model: str | None = None
    """As the events call it, from the first forward on."""
    told: bool = False
    """The length of the prompt stands beside an emitted token already."""


class PromptFeed:
    """Rows of the forwards of one `PromptProcessingBatch.prompt`: right-padded pieces of unequal prompts."""

    def __init__(self, sequences: list[Sequence], offsets: list[int], lengths: list[int]) -> None:
        self.sequences = sequences
        self.offsets = offsets
        self.lengths = lengths
        self.done = 0
        """Columns fed so far."""

    def __call__(self, event: StepEvent) -> Named:
        if event.batch != len(self.sequences):
            return None
        rows = [self._row(i, event.q, left) for i, left in enumerate(left_padding(event))]
        self.done += event.q
        phase = "chunk" if any(row.offset for row in rows) else "prefill"
        for sequence in self.sequences:
            sequence.model = event.model
        return rows, phase

    def _row(self, index: int, q: int, left: int) -> Row:
        length, sequence = self.lengths[index], self.sequences[index]
        fed = max(0, min(q, length - self.done))
        return Row(
            seq=sequence.name,
            offset=self.offsets[index] + min(self.done, length),
            tokens=fed,
            scheduled=fed,
            total=sequence.total,
            left_padding=left or None,
            right_padding=q - fed or None,
        )


class DecodeFeed:
    """Rows of one `GenerationBatch._step`: a token each, at first the last one of the prompt."""

    def __init__(self, sequences: list[Sequence], offsets: list[int]) -> None:
        self.sequences = sequences
        self.offsets = offsets

    def __call__(self, event: StepEvent) -> Named:
        if event.batch != len(self.sequences):
            return None
        rows = []
        for sequence, offset, left in zip(self.sequences, self.offsets, left_padding(event), strict=True):
            sequence.model = event.model
            # Beside a prompt's token stands the prompt's length; so every prompt token can be told.
            total = sequence.total if offset < sequence.total else None
            rows.append(
                Row(seq=sequence.name, offset=offset, tokens=1, total=total, left_padding=left or None)
            )
        return rows, "decode"


def left_padding(event: StepEvent) -> list[int]:
    """Padding in front of each row; none where it is not known."""
    padding = event.left_padding
    return padding if padding is not None and len(padding) == event.batch else [0] * event.batch
