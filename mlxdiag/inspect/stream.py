"""One answer, token by token: where it crosses a threshold of collapse. Of bounded size."""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Iterator
from typing import Any

from mlxdiag.inspect.cycles import SHORT_PERIOD, TAIL, tail_cycle

SPAN = 16
RESERVED_COUNT = 3
RESERVED_DISTINCT = 2
PAD_RUN = 4
ZERO_RUN = 8
FLOOD = 8
JOINS = 32

Found = tuple[str, int, dict[str, Any]]
"""Kind, index of the first token that belongs to it, evidence."""


class Stream:
    """The generated part of one sequence."""

    __slots__ = (
        "adopted",
        "after_eos",
        "alone",
        "bad",
        "controls",
        "count",
        "counted",
        "filler",
        "joins",
        "nonfinite",
        "pad_run",
        "prompt",
        "reserved",
        "seq",
        "spoken",
        "tail",
        "told",
        "trailing",
        "zero_run",
    )

    def __init__(self, seq: str | None) -> None:
        self.seq = seq
        self.count = 0
        self.counted = False
        self.prompt: int | None = None
        self.adopted = False
        self.alone = True
        self.nonfinite = False
        self.bad = False
        self.told: set[str] = set()
        self.joins: deque[int] = deque(maxlen=JOINS)
        self.pad_run = 0
        self.zero_run = 0
        self.trailing = 0
        self.spoken = 0
        self.after_eos = False
        self.reserved: deque[tuple[int, int | None]] = deque(maxlen=SPAN)
        self.controls: deque[tuple[int, int | None]] = deque(maxlen=SPAN)
        self.tail = array("q")
        self.filler: list[int | None] = []

    def push(self, letter: str, ident: int | None) -> Iterator[Found]:
        """Take one token; yields (kind, first index, evidence) for each threshold it crosses."""
        index = self.count
        self.count = index + 1
        if letter in "pe":
            self.trailing += 1
            self.filler.append(ident)
            if len(self.filler) > SPAN:
                self.tail = array("q")
                self.filler = [None]
        else:
            before = 0 if self.trailing else self.zero_run
            self.zero_run = before + 1 if letter == "0" else 0
            self.trailing = 0
            self.spoken += 1
            self._remember(ident)
        if letter == "p":
            self.pad_run += 1
            # A run that follows an EOS is what batch runners emit for a row that has finished.
            if self.pad_run == PAD_RUN and not self.after_eos:
                yield "pads", index - PAD_RUN + 1, {"run": PAD_RUN}
            return
        self.pad_run = 0
        self.after_eos = letter == "e"
        if letter == "r":
            yield from self._reserved(index, ident)
        elif letter == "c":
            yield from self._control(index, ident)

    def extend(self, tokens: int, ids: list[int] | None) -> None:
        """Take a run of plain text tokens that follows plain text: the same as a `push` of each."""
        self.count += tokens
        self.spoken += tokens
        self.after_eos = False
        if ids is None:
            self.tail = array("q")
        else:
            self.tail.extend(ids)
            if len(self.tail) > 2 * TAIL:
                del self.tail[:-TAIL]

    def _remember(self, ident: int | None) -> None:
        for held in (*self.filler, ident):
            if held is None:
                self.tail = array("q")
            else:
                self.tail.append(held)
        self.filler.clear()
        if len(self.tail) > 2 * TAIL:
            del self.tail[:-TAIL]

    def _reserved(self, index: int, ident: int | None) -> Iterator[Found]:
        near = self.reserved
        near.append((index, ident))
        while near[0][0] <= index - SPAN:
            near.popleft()
        distinct = len({held for _, held in near if held is not None})
        if len(near) >= RESERVED_COUNT or distinct >= RESERVED_DISTINCT:
            yield "reserved", near[0][0], {"reserved": len(near), "distinct": distinct, "span": SPAN}

    def _control(self, index: int, ident: int | None) -> Iterator[Found]:
        near = self.controls
        near.append((index, ident))
        while near[0][0] <= index - SPAN:
            near.popleft()
        same = [at for at, held in near if held == ident]
        # Without ids only an unbroken run shows that one token floods.
        if len(same) >= FLOOD and (ident is not None or same[-1] - same[-FLOOD] == FLOOD - 1):
            yield "flood", same[-FLOOD], {"count": len(same), "span": SPAN}

    def at_end(self) -> Iterator[Found]:
        """What only the end of the answer shows: a run or a loop that normal text followed is legal."""
        run = self.zero_run
        if run >= ZERO_RUN:
            yield "zeros", self.count - run - self.trailing, {"run": run, "nonfinite": self.nonfinite}
            return
        cycle = tail_cycle(self.tail)
        if cycle is not None:
            kind = "short-cycle" if cycle.period <= SHORT_PERIOD else "long-cycle"
            start = self.count - self.trailing - cycle.covered
            yield kind, start, {"period": cycle.period, "repeats": cycle.repeats, "tokens": cycle.covered}
