"""The caches on stage: which sequences share a batch, and how they get there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from mlxdiag.errors import UnjudgedError
from mlxdiag.models.adapter import Backend
from mlxdiag.replay.ops import Forward
from mlxdiag.replay.padding import Announced

Caches = list[Any]


class Group(msgspec.Struct):
    """Sequences that run together; `seqs[i]` is row i of `caches`."""

    seqs: tuple[str, ...]
    caches: Caches
    batched: bool = False


class Stage:
    """Holds every live sequence's caches and regroups them as a plan asks."""

    def __init__(self, fresh: Callable[[], Caches], library: Backend) -> None:
        self._fresh = fresh
        self._library = library
        self.groups: list[Group] = []
        self.copies: dict[str, Caches] = {}
        """What was extracted of rows that stayed in their batch, until they are fed again."""

    def group_of(self, seq: str) -> Group | None:
        return next((group for group in self.groups if seq in group.seqs), None)

    def enter(self, seq: str, caches: Caches) -> None:
        """Put a sequence on stage with caches of its own; an older one of that name leaves."""
        self.leave(seq)
        self.groups.append(Group((seq,), caches))

    def leave(self, seq: str) -> None:
        group = self.group_of(seq)
        if group is None:
            return
        if len(group.seqs) > 1:
            self._keep(group, tuple(s for s in group.seqs if s != seq))
        else:
            self.groups.remove(group)

    def extract(self, seq: str) -> None:
        """Copy a row out of its batch. Fed alone next, the sequence goes on from the copy."""
        group = self.group_of(seq)
        if group is not None and group.batched and self._library.fed(group.caches):
            self.copies[seq] = self._library.extract(group.caches, group.seqs.index(seq))

    def for_forward(self, op: Forward, told: Announced | None = None) -> Group:
        """The group whose rows are exactly the forward's, made so where it is not.

        `told`: what its caches hear of right padding before it.
        """
        seqs = tuple(feed.seq for feed in op.feeds)
        copies = {seq: self.copies.pop(seq) for seq in seqs if seq in self.copies}
        if len(seqs) == 1 and not op.batched and copies:
            self.enter(seqs[0], copies[seqs[0]])
        group = self.together(seqs, batched=op.batched)
        left = [feed.left for feed in op.feeds]
        if op.batched and any(left) and not self._library.fed(group.caches):
            self._library.pad_left(group.caches, left)
        if told is not None:
            self._library.pad_right(group.caches, list(told.lengths), list(told.right))
        return group

    def filter(self, seqs: tuple[str, ...]) -> None:
        """Go on with these rows. Where they are the whole batch the library is asked all the same: it drops
        the padding that stands in front of every row.
        """
        group = self.group_of(seqs[0]) if seqs else None
        if group is not None and group.batched and seqs == group.seqs:
            self._keep(group, seqs)
        else:
            self.regroup(seqs)

    def regroup(self, seqs: tuple[str, ...]) -> None:
        """Make these the rows of one batch, in this order."""
        self.together(seqs, batched=True)

    def together(self, seqs: tuple[str, ...], *, batched: bool) -> Group:
        """One group with these rows in this order, by the cheapest of the library's own moves."""
        for seq in seqs:
            if self.group_of(seq) is None:
                self.enter(seq, self._fresh())
        first = self.group_of(seqs[0])
        assert first is not None
        if first.seqs != seqs:
            first = self._regroup(seqs, first)
        if batched and not first.batched:
            first.caches = self._library.merge([first.caches])
            first.batched = True
        return first

    def _regroup(self, seqs: tuple[str, ...], first: Group) -> Group:
        if first.batched and _is_subsequence(seqs, first.seqs):
            self._split(first, seqs)
            return first
        count = len(first.seqs)
        if first.batched and seqs[:count] == first.seqs:
            self._library.extend(first.caches, self._batch_of(seqs[count:]))
            first.seqs = seqs
            return first
        caches = [self._take(seq) for seq in seqs]
        group = Group(seqs, self._library.merge(caches) if len(seqs) > 1 else caches[0], len(seqs) > 1)
        self.groups.append(group)
        return group

    def _batch_of(self, seqs: tuple[str, ...]) -> Caches:
        """Batch caches of rows that join another batch; a batch that joins as a whole keeps its layout."""
        group = self.group_of(seqs[0])
        if group is not None and group.batched and group.seqs == seqs:
            self.groups.remove(group)
            return group.caches
        return self._library.merge([self._take(seq) for seq in seqs])

    def _split(self, group: Group, seqs: tuple[str, ...]) -> None:
        """Two batches of one, as the library does it: each keeps its rows of the same caches."""
        others = tuple(seq for seq in group.seqs if seq not in seqs)
        rest = Group(group.seqs, self._library.fork(group.caches), group.batched)
        self._keep(rest, others)
        self.groups.append(rest)
        self._keep(group, seqs)

    def _take(self, seq: str) -> Caches:
        """A sequence's own caches, out of whatever batch it is in."""
        group = self.group_of(seq)
        assert group is not None
        if not group.batched:
            self.groups.remove(group)
            return group.caches
        if not self._library.is_batch(group.caches):
            raise UnjudgedError(f"{seq} cannot be taken out of its batch: the library has no extract for it")
        # The library cannot take a row out of a batch that was never fed.
        fed = self._library.fed(group.caches)
        caches = self._library.extract(group.caches, group.seqs.index(seq)) if fed else self._fresh()
        self.leave(seq)
        return caches

    def _keep(self, group: Group, seqs: tuple[str, ...]) -> None:
        self._library.keep_rows(group.caches, [group.seqs.index(seq) for seq in seqs])
        group.seqs = seqs


def _is_subsequence(seqs: tuple[str, ...], of: tuple[str, ...]) -> bool:
    return set(seqs) < set(of) and list(seqs) == sorted(seqs, key=of.index)
