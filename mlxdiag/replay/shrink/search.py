"""Delta debugging over a trace: first what can be left out, then how short the rest can be.

Large moves come first, so that a budget of some sixty runs is enough for a thousand steps: what comes after
the fault goes in one move, the other sequences in one, and all lengths are scaled down together before steps
and single lengths are tried. The order is fixed, so that a search gives the same result every time.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import msgspec

from mlxdiag.replay.shrink.numbers import Key, Variable
from mlxdiag.replay.shrink.oracles import Counted, Seen, Spent
from mlxdiag.replay.shrink.sketch import Size, Sketch, measure
from mlxdiag.replay.shrink.walk import Edits
from mlxdiag.traces.types import Trace

LENGTHS = ("tokens", "gap", "padding", "asked", "matched", "beyond", "window", "max_kv", "chunk", "pad_to")
"""Variables that are scaled together; the others are only ever made smaller one by one."""
SCALES = (2, 3, 4, 8, 16, 32, 64)
"""Largest window, or longest forward where there is no window, that scaling aims at."""
USUAL_SCALES = (4, 16)
FOR_CONTROL = 6
"""Calls kept back for finding a neighbour that passes."""


class Search:
    """One search; `best` is the smallest trace so far that shows the fault."""

    def __init__(
        self,
        sketch: Sketch,
        oracle: Counted,
        target: frozenset[str],
        *,
        fixed: Sequence[str] = (),
        at: int | None = None,
        seq: str | None = None,
    ) -> None:
        """`fixed`: kinds of lengths left alone. `at`, `seq`: entry and sequence at which the fault shows."""
        self.sketch = sketch
        self.oracle = oracle
        self.target = target
        self.fixed = frozenset(fixed)
        self.at = at
        self.seq = seq
        self.best = Edits()
        self.passing: list[tuple[Edits, Edits, Size]] = []
        """Candidates that showed no fault at all: parent, edits, size."""
        self.complete = True
        """False once the budget has ended a part of the search."""

    def run(self) -> None:
        """Search until nothing smaller is left, or the budget is used up."""
        whole = self.oracle.budget
        self.oracle.budget = max(whole - FOR_CONTROL, 1)
        with self._within_budget():
            self._coarse()
            while self._fine():
                pass
        self.oracle.budget = whole
        with self._within_budget():
            self._find_control()

    @contextlib.contextmanager
    def _within_budget(self) -> Iterator[None]:
        try:
            yield
        except Spent:
            self.complete = False

    def control(self) -> Trace | None:
        """The largest passing neighbour of `best`; else the smallest trace that passed on the way."""
        near = [(size, edits) for parent, edits, size in self.passing if parent == self.best]
        if near:
            return self.sketch.write(max(near, key=lambda one: one[0])[1])
        far = [(size, edits) for _, edits, size in self.passing]
        return self.sketch.write(min(far, key=lambda one: one[0])[1]) if far else None

    # -- moves ------------------------------------------------------------------------------------------

    def _try(self, edits: Edits) -> bool:
        """Whether the fault is still there; `best` moves on if it is."""
        if edits == self.best:
            return False
        trace = self.sketch.write(edits)
        if trace is None:
            return False
        seen = self.oracle(trace)
        if seen is not None and self.target <= seen:
            self.best = edits
            return True
        self._note_passing(edits, trace, seen)
        return False

    def _note_passing(self, edits: Edits, trace: Trace, seen: Seen) -> None:
        size = self._size(edits, trace)
        if seen == frozenset() and size.tokens:
            self.passing.append((self.best, edits, size))

    def _size(self, edits: Edits, trace: Trace) -> Size:
        rest = sum(self._value(edits, key) for key in self.sketch.variables if key[0] != "tokens")
        return measure(trace, rest)

    def _value(self, edits: Edits, key: Key) -> int:
        return edits.values.get(key, self.sketch.variables[key].value)

    def _with(self, values: dict[Key, int], dropped: Iterable[int] = (), gone: Iterable[str] = ()) -> Edits:
        best = self.best
        return Edits(best.dropped | set(dropped), best.gone | set(gone), {**best.values, **values})

    # -- coarse -----------------------------------------------------------------------------------------

    def _coarse(self) -> None:
        if not self._at_once():
            self._cut_the_end()
            self._only_one_sequence()
            self._scale()
        self._cut_the_middle()

    def _at_once(self) -> bool:
        """All of the large moves in one, at a scale that most faults survive: a full-size run costs most."""
        names = self.sketch.sequences(self.best)
        after = [n for n in self.sketch.steps(self.best) if self.at is not None and n > self.at]
        others = [name for name in names if name != self.seq] if self.seq in names else []
        for scale in USUAL_SCALES:
            if self._try(self._with(self._scaled(scale), after, others)):
                self._cut_the_end()
                self._only_one_sequence()
                return True
        return False

    def _cut_the_end(self) -> None:
        """Without what comes after the fault."""
        steps = self.sketch.steps(self.best)
        if self.at is not None and self._try(self._with({}, [n for n in steps if n > self.at])):
            return
        low, high = 0, len(steps)
        while high - low > 1:
            middle = (low + high) // 2
            if self._try(self._with({}, steps[middle:])):
                high = middle
            else:
                low = middle

    def _only_one_sequence(self) -> None:
        names = self.sketch.sequences(self.best)
        if len(names) < 2:
            return
        if self.seq in names and self._try(self._with({}, gone=[n for n in names if n != self.seq])):
            return
        self._reduce(names, lambda some: self._with({}, gone=some))

    def _scale(self) -> None:
        """All lengths in proportion: the smallest scale at which the fault is still there."""
        for scale in SCALES:
            scaled = self._scaled(scale)
            if not scaled or self._try(self._with(scaled)):
                return

    def _scaled(self, scale: int) -> dict[Key, int]:
        """Every length in proportion; empty where they are that small already."""
        lengths = {key: v.value for key, v in self._open() if key[0] in LENGTHS}
        windows = [value for key, value in lengths.items() if key[0] == "window"]
        unit = max(windows or [v for k, v in lengths.items() if k[0] == "tokens"], default=0)
        if scale >= unit:
            return {}
        return {
            key: max(self.sketch.variables[key].least, _rounded(value * scale, unit))
            for key, value in lengths.items()
        }

    def _cut_the_middle(self) -> None:
        """Only the step at fault; else what came before it in one forward; else the first and the last."""
        steps = self.sketch.steps(self.best)
        if len(steps) < 3 or self._try(self._with({}, steps[:-1])):
            return
        self._try(self._with(self._poured(steps), steps[1:-1])) or self._try(self._with({}, steps[1:-1]))

    def _poured(self, steps: list[int]) -> dict[Key, int]:
        """The first forward's lengths when it takes over the tokens of all steps between it and the last."""
        first = self.sketch.trace.entries[steps[0]]
        if first.kind not in ("prefill", "chunk"):
            return {}
        between = set(steps[1:-1])
        fed = [k for k in self.sketch.variables if k[0] == "tokens" and k[1] in between]
        rows = [k for k in self.sketch.variables if k[0] == "tokens" and k[1] == steps[0]]
        if len(rows) != 1:
            return {}
        return {rows[0]: self._value(self.best, rows[0]) + sum(self._value(self.best, key) for key in fed)}

    # -- fine -------------------------------------------------------------------------------------------

    def _fine(self) -> bool:
        """One round over sequences, steps and lengths; whether anything became smaller."""
        before = self.best
        names = self.sketch.sequences(self.best)
        if len(names) > 1:
            self._reduce(names, lambda some: self._with({}, gone=some))
        self._reduce(self.sketch.steps(self.best), lambda some: self._with({}, some))
        for group in self._groups():
            self._shorten(group)
        return self.best != before

    def _reduce(self, items: Sequence[int] | Sequence[str], without: Callable[[Any], Edits]) -> None:
        """ddmin: leave out what the fault does not need of `items`, halves first, then smaller parts."""
        left, parts = list(items), 2
        while left:
            size = max(len(left) // parts, 1)
            for start in range(0, len(left), size):
                some = left[start : start + size]
                if self._try(without(some)):
                    left = [item for item in left if item not in some]
                    parts = max(parts - 1, 2)
                    break
            else:
                if size == 1:
                    return
                parts *= 2

    def _groups(self) -> Iterator[list[Key]]:
        """Lengths to make shorter: a window and the forwards that fill it; equal ones of a kind together, the
        longest first; then each by itself."""
        together: dict[tuple[str, int], list[Key]] = {}
        for key, _ in self._open():
            together.setdefault((key[0], self._value(self.best, key)), []).append(key)
        groups = sorted(together.values(), key=lambda keys: -self._value(self.best, keys[0]))
        for (kind, value), keys in together.items():
            if kind == "window" and (filling := together.get(("tokens", value))):
                yield keys + filling
        yield from groups
        for keys in groups:
            if len(keys) > 1:
                yield from ([key] for key in keys)

    def _open(self) -> Iterator[tuple[Key, Variable]]:
        """Lengths of what is left that could be shorter."""
        kept = set(self.sketch.kept(self.best)) | {-1}
        for key, variable in self.sketch.variables.items():
            fixed = key[0] in self.fixed or key[1] not in kept
            if not fixed and self._value(self.best, key) > variable.least:
                yield key, variable

    def _shorten(self, keys: list[Key]) -> None:
        """The least length of these at which the fault is still there, by halves."""
        least = max(self.sketch.variables[key].least for key in keys)
        high = max(self._value(self.best, key) for key in keys)
        low = least - 1
        while high - low > 1:
            middle = least if low < least else (low + high) // 2
            if self._try(self._with(dict.fromkeys(keys, middle))):
                high = middle
            else:
                low = middle

    def _find_control(self) -> None:
        """Ask about neighbours of the result until one passes."""
        for edits in self._neighbours():
            if any(parent == self.best for parent, _, _ in self.passing):
                return
            trace = self.sketch.write(edits)
            if trace is not None:
                self._note_passing(edits, trace, self.oracle(trace))

    def _neighbours(self) -> Iterator[Edits]:
        """One token less somewhere, then one step less, the last first."""
        for key, _ in self._open():
            yield self._with({key: self._value(self.best, key) - 1})
        for step in reversed(self.sketch.steps(self.best)):
            yield self._with({}, [step])


def _rounded(value: int, unit: int) -> int:
    """`value / unit`, upwards: a length that was just beyond another stays beyond it."""
    return -(-value // unit)


class Shrunk(msgspec.Struct, frozen=True):
    """What a search gave."""

    trace: Trace
    """The smallest that shows the fault, steps counted from 1."""
    control: Trace | None
    """The largest passing neighbour that was found."""
    runs: int
    """Oracle calls, those included that a resumed search did not repeat."""
    target: frozenset[str]
    """What had to be seen."""
    before: Size
    after: Size
    kept: tuple[int | None, ...]
    """Steps of the original that are left."""
    complete: bool
    """False where the budget ended the search."""
