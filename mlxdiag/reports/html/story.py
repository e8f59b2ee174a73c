"""Reads a trace for its page: who did what in which step, how lengths moved, and the calls worth drawing.

Lanes and series grow with the file; calls are few: those that findings name, then wrong, then typical ones.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import msgspec
from msgspec import UNSET

from mlxdiag.inspect.call import Call, build
from mlxdiag.inspect.effect import key_axis
from mlxdiag.inspect.findings import SEVERITIES, Finding, Report
from mlxdiag.inspect.run import Run, is_model
from mlxdiag.reports.attended import lateness
from mlxdiag.traces.types import FORWARD_PHASES, Attention, Entry, Header, Model

LANES = 2000
"""Sequences that are drawn; the others are counted."""
TRACKS = 24
"""Pairs of a sequence and a layer family whose lengths are drawn."""
CALLS = 36
LARGEST_CALL = 4096
"""Queries; a larger call is not drawn."""
NONE = -(1 << 62)
"""Not observed, in a column of integers."""
COLUMNS = ("offset", "live", "keys", "mask")
WHOLE = "whole run"
"""The lane of entries that name no sequence."""


class Lane:
    """One sequence: its marks as (place, phase), in order."""

    __slots__ = ("kinds", "name", "places")

    def __init__(self, name: str) -> None:
        self.name = name
        self.places = array("q")
        self.kinds: list[str] = []


class Track:
    """Lengths of one layer family while it works on one sequence."""

    __slots__ = ("columns", "family", "places", "seq", "window")

    def __init__(self, seq: str, family: str, window: int | None) -> None:
        self.seq, self.family, self.window = seq, family, window
        self.places = array("q")
        self.columns = tuple(array("q") for _ in COLUMNS)


class Compared(msgspec.Struct, frozen=True):
    """Logits of one row in one step against the reference."""

    place: int
    step: int | None
    seq: str
    start: int
    """Position of the first compared token."""
    stop: int
    max_abs: float
    first: int | None
    tolerance: float | None
    margin: float | None
    reference: str


class Story(msgspec.Struct, kw_only=True):
    """What the page shows of a trace. A place is the index of a step, from 0."""

    header: Header
    report: Report
    models: list[Entry | Model] = []
    steps: list[int | None] = []
    """By place: the step's number in the file."""
    notes: int = 0
    """Entries that tell of other steps, which the summary counts as steps of their own."""
    phases: list[str] = []
    lanes: dict[str, Lane] = {}
    hidden_lanes: set[str] = set()
    tracks: dict[tuple[str, str], Track] = {}
    hidden_tracks: set[str] = set()
    """Sequences, as the lanes that are not drawn."""
    parity: list[Compared] = []
    calls: list[tuple[int, Call]] = []
    """(place, call) to draw, in the order of the file."""
    left_out: int = 0
    """Calls that are not drawn."""

    by_step: dict[int, int] = {}
    by_entry: dict[int, int] = {}
    """Places by number in the file, from 1, of entries whose step has none."""

    def place_of(self, finding: Finding) -> int | None:
        """Where a finding's step stands."""
        if finding.step is not None:
            return self.by_step.get(finding.step)
        entry = finding.evidence.get("entry")
        return self.by_entry.get(entry) if isinstance(entry, int) else None


def read(header: Header, entries: Iterable[Entry], report: Report) -> Story:
    """One pass over `entries`, which must be the ones that `report` judged."""
    reader = _Reader(header, report)
    for entry in entries:
        reader.take(entry)
    return reader.story()


class _Reader:
    """Stateful: the models seen so far, and the story as it grows."""

    def __init__(self, header: Header, report: Report) -> None:
        self._story = Story(header=header, report=report)
        self._run = Run(header)
        if header.model is not None:
            self._story.models.append(header.model)
        self._by_step = _ranks(report, lambda finding: finding.step)
        self._by_entry = _ranks(report, lambda finding: finding.evidence.get("entry"))
        self._named = {f.seq for f in report.findings if f.seq}
        self._must: tuple[list[tuple[int, Call]], ...] = tuple([] for _ in SEVERITIES)
        """Gravest first."""
        self._wrong: list[tuple[int, Call]] = []
        self._typical: list[tuple[int, Call]] = []
        self._seen = 0
        self._number = 0
        """Of the entry, from 1."""

    def story(self) -> Story:
        picked: list[tuple[int, Call]] = []
        for more in (*self._must, self._wrong, self._typical):
            picked += more[: CALLS - len(picked)]
        self._story.calls = sorted(picked, key=lambda one: (one[0], one[1].index))
        self._story.left_out = self._seen - len(picked)
        return self._story

    def take(self, entry: Entry) -> None:
        story = self._story
        self._number += 1
        if is_model(entry):
            self._run.enter(entry)
            story.models.append(entry)
            return
        kind = entry.kind
        if kind in ("end", "note"):
            story.notes += kind == "note"
            return
        if entry.model is not None:
            self._run.switch(entry)
        place = len(story.steps)
        story.steps.append(entry.step)
        if entry.step is None:
            story.by_entry[self._number] = place
        else:
            story.by_step.setdefault(entry.step, place)
        story.phases.append(kind)
        self._lanes(entry, place, kind)
        calls = [self._call(entry, index, place) for index in range(len(entry.attention or ()))]
        if kind in FORWARD_PHASES:
            self._compared(entry, place, calls)

    def _lanes(self, entry: Entry, place: int, kind: str) -> None:
        rows = entry.rows or []
        names = {row.seq or WHOLE: row.phase or kind for row in rows} or {WHOLE: kind}
        for name, phase in names.items():
            lane = self._story.lanes.get(name)
            if lane is None:
                if len(self._story.lanes) >= LANES and name not in self._named:
                    self._story.hidden_lanes.add(name)
                    continue
                lane = self._story.lanes[name] = Lane(name)
            lane.places.append(place)
            lane.kinds.append(phase)

    def _compared(self, entry: Entry, place: int, calls: list[Call]) -> None:
        for index, output in enumerate(entry.output or []):
            parity = output.parity
            rows = entry.rows or []
            if parity is None or parity.max_abs is None or index >= len(rows):
                continue
            row = rows[index]
            # Parity speaks of the tokens' own positions, which padding left in a cache lies between.
            start = max((row.offset or 0) - max((lateness(call, index) for call in calls), default=0), 0)
            self._story.parity.append(
                Compared(
                    place,
                    entry.step,
                    row.seq or WHOLE,
                    start,
                    start + max(parity.compared or row.tokens or 1, 1),
                    parity.max_abs,
                    parity.first,
                    parity.tolerance,
                    parity.margin,
                    parity.reference or "reference",
                )
            )

    def _call(self, entry: Entry, index: int, place: int) -> Call:
        call = build(entry, index, self._run)
        self._follow(call, place)
        if (call.q or 0) <= LARGEST_CALL and call.kind != "recurrent":
            self._pick(entry, call, place)
        return call

    def _pick(self, entry: Entry, call: Call, place: int) -> None:
        """Whether it may be drawn, and before which others."""
        self._seen += 1
        rank = self._by_entry.get(self._number) if entry.step is None else self._by_step.get(entry.step)
        if rank is not None:
            self._keep(self._must[rank], place, call)
        elif _looks_wrong(call.attention):
            self._keep(self._wrong, place, call)
        elif (call.q or 0) > 1 or len(self._typical) < CALLS // 3:
            self._keep(self._typical, place, call)

    @staticmethod
    def _keep(held: list[tuple[int, Call]], place: int, call: Call) -> None:
        if len(held) < CALLS:
            held.append((place, call))

    def _follow(self, call: Call, place: int) -> None:
        rows = call.entry.rows or []
        family = call.family or "attention"
        for row, seq in enumerate([one.seq or WHOLE for one in rows] or [WHOLE]):
            track = self._story.tracks.get((seq, family))
            if track is None:
                if len(self._story.tracks) >= TRACKS and seq not in self._named:
                    self._story.hidden_tracks.add(seq)
                    continue
                track = self._story.tracks[(seq, family)] = Track(seq, family, call.window)
            if track.places and track.places[-1] == place:
                continue
            track.places.append(place)
            for column, value in zip(track.columns, _lengths(call, row), strict=True):
                column.append(NONE if value is None else value)


def _ranks(report: Report, key: Callable[[Finding], Any]) -> dict[int, int]:
    """By step or entry, how grave its worst finding is: 0 for an error."""
    ranks: dict[int, int] = {}
    for finding in report.findings:
        at = key(finding)
        if isinstance(at, int):
            rank = len(SEVERITIES) - 1 - SEVERITIES.index(finding.severity)
            ranks[at] = min(rank, ranks.get(at, rank))
    return ranks


def _lengths(call: Call, row: int) -> Iterator[int | None]:
    offsets = call.offsets
    yield offsets[row] if offsets is not None and row < len(offsets) else call.cursor
    recorded = call.attention.live is not None or call.attention.live_start is not None
    yield call.live if recorded else None
    own = call.ks[row] if call.ks is not None and row < len(call.ks) else call.k
    yield own
    # One mask over the keys of all packed rows: where it fits them, a row has as many columns as keys.
    shared = call.ks is not None and call.m == key_axis(call)
    yield None if call.mask_kind != "array" else own if shared else call.m


def _looks_wrong(a: Attention) -> bool:
    totals = a.totals or {}
    if any(totals.get(name) for name in ("wrong_queries", "padding_queries", "missing", "future", "foreign")):
        return True
    return a.fate not in (None, "used") or (
        a.mask is not UNSET and isinstance(a.mask, tuple) and isinstance(a.k, int) and a.mask[-1] != a.k
    )
