"""Rows of a mask that go on in a straight line, joined: a band of a thousand queries becomes one shape."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from mlxdiag.reports.attended import Attended, Interval, parts

STAIRS = 40
"""Queries up to which every step of an edge is drawn."""
MOST = 400
"""Shapes in one drawing."""
FINE = 60
"""Shapes up to which their edges are stairs."""


class Segment(NamedTuple):
    """Queries `top` to `bottom` of one class; the interval moves by `slopes` positions a query."""

    kind: str
    top: int
    bottom: int
    start: Interval
    slopes: tuple[int, int]

    def at(self, query: int) -> Interval:
        """The positions of one of its queries."""
        by = query - self.top
        return self.start[0] + self.slopes[0] * by, self.start[1] + self.slopes[1] * by


def segments(attended: Attended) -> list[Segment]:
    """In the order of their last query."""
    done: list[Segment] = []
    held: list[Segment] = []
    for index, query in enumerate(attended.queries):
        going: list[Segment] = []
        for kind, interval in parts(query):
            before = next((s for s in held if s.kind == kind and _next(s, index, interval)), None)
            if before is None:
                going.append(Segment(kind, index, index, interval, (0, 0)))
            else:
                held.remove(before)
                going.append(_extended(before, index, interval))
        done += held
        held = going
    return done + held


def _next(segment: Segment, index: int, interval: Interval) -> bool:
    if segment.bottom != index - 1:
        return False
    if segment.top == segment.bottom:
        return all(abs(new - old) <= 1 for new, old in zip(interval, segment.start, strict=True))
    return segment.at(index) == interval


def _extended(segment: Segment, index: int, interval: Interval) -> Segment:
    slopes = segment.slopes
    if segment.top == segment.bottom:
        slopes = (interval[0] - segment.start[0], interval[1] - segment.start[1])
    return segment._replace(bottom=index, slopes=slopes)


def outline(segment: Segment, *, fine: bool = True) -> Iterator[tuple[int, int]]:
    """Corners (position, query), clockwise; edges are stairs where `fine` and they can be told apart."""
    top, bottom = segment.top, segment.bottom
    steps = range(top, bottom + 1) if fine and bottom - top < STAIRS else (top, bottom)
    stairs = len(steps) == bottom - top + 1
    for query in steps:
        right = segment.at(query)[1] + 1
        if stairs:
            yield right, query
            yield right, query + 1
        else:
            yield right, query if query == top else query + 1
    for query in reversed(steps):
        left = segment.at(query)[0]
        if stairs:
            yield left, query + 1
            yield left, query
        else:
            yield left, query + 1 if query == bottom else query
