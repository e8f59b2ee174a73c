"""Token ids as they may be told: a class, and a number that only says which tokens are equal."""

from __future__ import annotations

import secrets
from collections.abc import Sequence

from mlxdiag.inspect.tokens import classify
from mlxdiag.traces.types import Tokens

_SPAN = 1 << 20


class Labels:
    """Relabels ids at random for one trace; the key is never written and goes with the process."""

    def __init__(self, raw: bool = False) -> None:
        self.raw = raw
        self._labels: dict[int, int] = {}
        self._used: set[int] = set()

    def classes(self, ids: Sequence[int], tokens: Tokens | None) -> str:
        """One letter an id."""
        return "".join(classify(ident, tokens) for ident in ids)

    def ids(self, ids: Sequence[int]) -> list[int]:
        """The real ids where they were asked for, else their labels."""
        return list(ids) if self.raw else [self._label(ident) for ident in ids]

    def _label(self, ident: int) -> int:
        label = self._labels.get(ident)
        while label is None:
            drawn = secrets.randbelow(_SPAN)
            if drawn not in self._used:
                label = self._labels[ident] = drawn
                self._used.add(drawn)
        return label
