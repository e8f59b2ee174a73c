"""Which sequences a cache holds, told by where it came from.

A program that runs one sequence never names it; its caches do. Every cache has a uid (`probe_tags`), and a
copy, merge, filter, extend or extract says which caches it came from.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable

BOUND = 1 << 16
"""Caches remembered; beyond it the one that was unused longest is forgotten."""


class Lineage:
    """Names of the rows of each cache, in batch order."""

    def __init__(self) -> None:
        self._names: OrderedDict[int, list[str]] = OrderedDict()
        self._made = 0
        self._given: OrderedDict[str, int] = OrderedDict()
        """How often each name that somebody else had made was given."""

    def new_name(self) -> str:
        self._made += 1
        return f"seq-{self._made}"

    def unused(self, name: str) -> str:
        """A name that somebody else has made, as a request id; a second request of that name is `name-2`."""
        times = self._given.pop(name, 0) + 1
        self._given[name] = times
        if len(self._given) > BOUND:
            self._given.popitem(last=False)
        return name if times == 1 else f"{name}-{times}"

    @property
    def made(self) -> int:
        """Names given so far."""
        return self._made

    def of(self, uid: int) -> list[str] | None:
        names = self._names.get(uid)
        if names is not None:
            self._names.move_to_end(uid)
        return names

    def bind(self, uids: Iterable[int], names: list[str]) -> None:
        """The rows of these caches are `names` from now on."""
        for uid in uids:
            self._names[uid] = names
            self._names.move_to_end(uid)
        while len(self._names) > BOUND:
            self._names.popitem(last=False)

    def rows(self, uids: list[int], batch: int, name: str | None = None) -> list[str]:
        """Names for a forward of `batch` rows over these caches: those they have, else new ones.

        A single row may be given a `name`, for a second model that runs the same sequence.
        """
        names = self.of(uids[0]) if uids else None
        if names is None or len(names) != batch:
            names = [name] if name is not None and batch == 1 else [self.new_name() for _ in range(batch)]
            self.bind(uids, names)
        return names
