"""Which variable of a script holds the caches of which sequences, and the lines that move them."""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec


class Group(msgspec.Struct):
    """A variable of the script: caches of one sequence, or of a batch."""

    seqs: tuple[str, ...]
    name: str
    batched: bool = False
    fed: bool = False


class Variables:
    """The variables so far and the lines that made them, as `replay.stage` does it with caches."""

    def __init__(self, fresh: str) -> None:
        self.fresh = fresh
        """The expression for fresh caches."""
        self.lines: list[str] = []
        self.used: dict[str, None] = {}
        """Helpers that are called, in order."""
        self.groups: list[Group] = []
        self._batches = 0

    def call(self, helper: str, arguments: str, before: str = "") -> None:
        """A line that calls one of `library_calls.HELPERS`."""
        self.used.setdefault(helper)
        self.lines.append(f"{before}{helper}{arguments}")

    def group(self, seq: str) -> Group:
        """The variable that holds a sequence; a new one, with fresh caches, where none does."""
        found = self.find(seq)
        if found is None:
            found = Group((seq,), name_of(seq))
            self.lines.append(f"{found.name} = {self.fresh}")
            self.groups.append(found)
        return found

    def find(self, seq: str) -> Group | None:
        """The variable that holds a sequence, where one does."""
        return next((group for group in self.groups if seq in group.seqs), None)

    def groups_of(self, seqs: Sequence[str]) -> list[Group]:
        """The variables that hold these sequences, made to hold no others."""
        found = [self.find(seq) for seq in seqs]
        for group in found:
            if group is not None and not set(group.seqs) <= set(seqs):
                return [self.together(tuple(seqs), batched=len(seqs) > 1)]
        return list({group.name: group for group in found if group is not None}.values())

    def whole_batch(self, seqs: tuple[str, ...]) -> bool:
        """Whether these sequences, in this order, are the rows of a batch already."""
        group = self.find(seqs[0]) if seqs else None
        return group is not None and group.batched and group.seqs == seqs

    def together(self, seqs: tuple[str, ...], *, batched: bool) -> Group:
        """One variable for these sequences, in this order; `batched`: be it for one alone."""
        for seq in seqs:
            self.group(seq)
        first = self.group(seqs[0])
        if first.seqs != seqs:
            first = self._regroup(seqs, first)
        if batched and not first.batched:
            self._batch(first, [first.name])
        return first

    def _batch(self, group: Group, rows: list[str]) -> None:
        group.name, group.batched = self._new_batch(), True
        self.call("merge", f"({', '.join(rows)})", f"{group.name} = ")

    def _new_batch(self) -> str:
        self._batches += 1
        return f"batch{self._batches}"

    def _regroup(self, seqs: tuple[str, ...], first: Group) -> Group:
        if first.batched and set(seqs) < set(first.seqs) and list(seqs) == sorted(seqs, key=first.seqs.index):
            others = tuple(seq for seq in first.seqs if seq not in seqs)
            rest = Group(first.seqs, self._new_batch(), True, first.fed)
            self.lines.append(f"{rest.name} = copy.deepcopy({first.name})")
            self.keep(rest, others)
            self.groups.append(rest)
            self.keep(first, seqs)
            return first
        count = len(first.seqs)
        if first.batched and seqs[:count] == first.seqs:
            other = self.find(seqs[count])
            if other is not None and other.batched and other.seqs == seqs[count:]:
                self.groups.remove(other)
                joined = other.name
            else:
                taken = [self._take(seq) for seq in seqs[count:]]
                joined = self._new_batch()
                self.call("merge", f"({', '.join(taken)})", f"{joined} = ")
            self.call("extend", f"({first.name}, {joined})")
            first.seqs = seqs
            return first
        fed = any(group.fed for group in self.groups if set(group.seqs) & set(seqs))
        taken = [self._take(seq) for seq in seqs]
        group = Group(seqs, taken[0], fed=fed)
        if len(seqs) > 1:
            self._batch(group, taken)
        self.groups.append(group)
        return group

    def _take(self, seq: str) -> str:
        group = self.group(seq)
        if not group.batched:
            self.groups.remove(group)
            return group.name
        name = name_of(seq)
        if group.fed:
            self.call("extract", f"({group.name}, {group.seqs.index(seq)})", f"{name} = ")
        else:
            self.lines.append(f"{name} = {self.fresh}")
        self.leave(seq)
        return name

    def leave(self, seq: str) -> None:
        """A sequence goes on without its caches."""
        group = self.find(seq)
        if group is None:
            return
        if len(group.seqs) > 1:
            self.keep(group, tuple(s for s in group.seqs if s != seq))
        else:
            self.groups.remove(group)

    def keep(self, group: Group, seqs: tuple[str, ...]) -> None:
        """Of a batch only these rows, in this order."""
        self.call("keep_rows", f"({group.name}, {[group.seqs.index(seq) for seq in seqs]})")
        group.seqs = seqs


def name_of(seq: str) -> str:
    """A variable for a sequence."""
    return "seq_" + re.sub(r"\W", "_", seq).removeprefix("seq_")
