"""Wrappers that are in place for a while, whichever library they watch."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Self

from mlxdiag.models.patches import Patches


class Installed(ABC):
    """Installing counts: the originals are back when every `install` has had its `remove`."""

    def __init__(self) -> None:
        self._patches = Patches()
        self._installed = 0

    def __enter__(self) -> Self:
        return self.install()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.remove()

    def install(self) -> Self:
        """Put the wrappers in place; models are given to `watch` before or after."""
        self._installed += 1
        if self._installed == 1:
            self._patch()
        return self

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Forwards within are nobody's business: the wrappers stay, and pass on what they are given."""
        held, self._installed = self._installed, 0
        try:
            yield
        finally:
            self._installed = held

    def remove(self) -> None:
        """Put the original objects back, once every `install` has been undone."""
        if self._installed == 0:
            return
        self._installed -= 1
        if self._installed == 0:
            self._patches.undo()

    @abstractmethod
    def _patch(self) -> None:
        """Put every wrapper in place."""
