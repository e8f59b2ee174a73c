"""The numbers of a trace: lengths that can be chosen freely, and all those that follow from them.

One walk over the trace serves both ways. While *reading*, `variable` notes a length and `number` finds the
formula behind a recorded value; while *writing*, the same calls give back the chosen lengths and what the
formulas make of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import msgspec

from mlxdiag.replay.shrink.formulas import Place, evaluate, fitting

Key = tuple[str, int, int]
"""What, the number of the entry in the trace (-1: the header), and the row, call or family."""


class Variable(msgspec.Struct, frozen=True):
    """A length that the scheduler, or whoever wrote the trace, was free to choose."""

    value: int
    least: int


class _Fit(msgspec.Struct):
    group: str
    names: list[str]
    """Formulas that gave the recorded value."""
    base: str | None
    """Formula that the value is written as a distance from, where none gave it."""
    distance: int = 0


class Reading:
    """Notes variables and formulas; gives every recorded value back as it is."""

    def __init__(self) -> None:
        self.variables: dict[Key, Variable] = {}
        self.fits: dict[Key, _Fit] = {}

    def variable(self, key: Key, value: int, least: int) -> int:
        self.variables[key] = Variable(value, min(least, value))
        return value

    def number(
        self,
        key: Key,
        group: str,
        value: int,
        names: tuple[str, ...],
        place: Place,
        *,
        base: str | None = None,
    ) -> int:
        """`base`: what the value is counted from where no formula gives it; None: from nothing."""
        found = fitting(value, names, place)
        fit = _Fit(group, found, None)
        if not found:
            start = evaluate(base, place) if base is not None else None
            fit = _Fit(group, [], base if start is not None else None, value - (start or 0))
            if abs(fit.distance) > 1:
                self.variables[("distance " + key[0], key[1], key[2])] = Variable(abs(fit.distance), 1)
        self.fits[key] = fit
        return value

    def settled(self) -> dict[Key, tuple[str | None, int]]:
        """By number: the formula and a distance from it.

        Where several formulas give a value, the one that gives the most values of its group is taken: a dense
        cache below its window looks like a ring.
        """
        votes: dict[str, Counter[str]] = {}
        for fit in self.fits.values():
            votes.setdefault(fit.group, Counter()).update(fit.names)
        chosen: dict[Key, tuple[str | None, int]] = {}
        for key, fit in self.fits.items():
            best = max(fit.names, key=lambda name: votes[fit.group][name], default=fit.base)
            chosen[key] = best, fit.distance
        return chosen


class Writing:
    """Gives chosen lengths in place of the recorded ones, and what follows from them."""

    def __init__(self, values: Mapping[Key, int], formulas: Mapping[Key, tuple[str | None, int]]) -> None:
        self.values = values
        self.formulas = formulas

    def variable(self, key: Key, value: int, least: int) -> int:
        return self.values.get(key, value)

    def number(
        self,
        key: Key,
        group: str,
        value: int,
        names: tuple[str, ...],
        place: Place,
        *,
        base: str | None = None,
    ) -> int:
        name, distance = self.formulas[key]
        chosen = self.values.get(("distance " + key[0], key[1], key[2]))
        if chosen is not None:
            distance = chosen if distance > 0 else -chosen
        made = evaluate(name, place) if name is not None else 0
        return value if made is None else made + distance


Numbers = Reading | Writing
