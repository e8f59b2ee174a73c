"""Tokens that programs have asked back of their caches, whether they were given or not."""

from __future__ import annotations


class Debts:
    """By model and sequence, of the sequences in progress. A program goes on as if it had been given all."""

    def __init__(self) -> None:
        self._asked: dict[tuple[str | None, str], int] = {}

    def count(self, model: str, seq: str) -> int:
        """Tokens asked back of this model's caches, from the first call on."""
        return self._asked.setdefault((model, seq), 0)

    def add(self, model: str | None, seq: str, tokens: int) -> None:
        if (model, seq) in self._asked:
            self._asked[model, seq] += tokens

    def stop(self, seq: str) -> None:
        """The sequence is over."""
        for key in [key for key in self._asked if key[1] == seq]:
            del self._asked[key]
