"""What each sequence has been through: fed, padded, trimmed, adopted; and so where it must be now.

While the rules look at an entry, every `Sequence` still describes the moment before it; the entry is
booked when the next one comes. Positions are a row's own (the position of its next real token), never a
cache's cursor.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

from mlxdiag.inspect.facts import BATCHED
from mlxdiag.inspect.sequence import (
    Sequence,
    Trim,
    Verify,
    adopted_length,
    agree,
    asked_and_done,
    cache_kinds,
    offset_at,
    ring_bound,
)
from mlxdiag.inspect.tokens import Key, Streams, row_key
from mlxdiag.traces.types import FORWARD_PHASES, Attention, Entry, Row

if TYPE_CHECKING:
    from mlxdiag.inspect.run import Run

BOUND = 4096
"""Unfinished sequences remembered; beyond it the one that was silent longest is forgotten."""

_NAMELESS = (Row(),)


class Sequences:
    """State per sequence, of bounded size, and the token streams beside it.

    `states[i]` and `observed[i]` belong to row i of the present entry: the sequence before it, and the
    offset that the caches (or else the scheduler) report.
    """

    def __init__(self, run: Run) -> None:
        self.run = run
        self.streams = Streams()
        self.states: list[Sequence | None] = []
        self.observed: list[int | None] = []
        self.restarted: list[int | None] = []
        """Where row i was before this entry, if it now feeds its prompt again from the start."""
        self.rows: tuple[Row, ...] | list[Row] = ()
        self.kind = ""
        self.saved: dict[str | None, tuple[dict[str | None, str], int | None]] = {}
        """Cache kinds by family, and the layer count, at the last save of each model."""
        self._entry: Entry | None = None
        self._known: OrderedDict[Key, Sequence] = OrderedDict()

    def feed(self, entry: Entry) -> bool:
        """Read a forward or a cache event. True when nothing in it can interest an MD2 or MD6 `on_entry`."""
        self._book()
        self._entry = entry
        model = self.run.model
        self.streams.feed(entry, model.tokens if model is not None else None, self.run.header.ids == "raw")
        self.kind = kind = entry.kind
        forward = kind in FORWARD_PHASES
        quiet = forward and not self.streams.new and entry.refused is None
        calls = [call for call in entry.attention or () if call.cache != "recurrent"]
        self.rows = rows = entry.rows or _NAMELESS
        self.states, self.observed = [], []
        self.restarted = [None] * len(rows)
        for index, row in enumerate(rows):
            state = self._find(entry, row)
            seen = _observed(calls, index, row)
            self.states.append(state)
            self.observed.append(seen)
            if state is None:
                continue
            if forward and _restarts(row.phase or kind, seen, state.position):
                self.restarted[index] = state.position
                state.restart(seen or 0)
                quiet = False
            elif quiet:
                quiet = state.settled and seen == state.position and row.drafted is None
        return quiet and agree(calls)

    def rest(self) -> None:
        """Stand between entries: at a model or the end, what the entry before showed is not shown again."""
        self._book()
        self.rows, self.states, self.observed, self.restarted = (), [], [], []
        self.kind = ""
        self.streams.new = []

    def steady(self, key: Key, emits: bool) -> int | None:
        """Position of a sequence that decodes plain text with nothing outstanding; None for any other.

        Its next plain decode need not be read (`feed`), only counted (`advance`).
        """
        self._book()
        state = self._known.get(key)
        if state is None or not state.settled or state.other is not None:
            return None
        if emits and not self.streams.steady(key):
            return None
        return state.position

    def advance(self, key: Key, steps: int, tokens: int, ids: list[int] | None) -> None:
        """Count plain decodes of one token each, which emitted `tokens` tokens of plain text."""
        state = self._known.get(key)
        if state is None or state.position is None:
            return
        state.position += steps
        state.fed += steps
        if len(self._known) > 1:
            self._known.move_to_end(key)
        if tokens:
            self.streams.advance(key, tokens, ids)

    def unconfirmed(self) -> list[Sequence]:
        """At the end of the trace: sequences whose last event no forward followed."""
        self._book()
        return [state for state in self._known.values() if state.trim is not None]

    def pad_only(self, index: int) -> bool:
        """Row `index` of the present forward holds no real token."""
        return self.rows[index].tokens == 0

    def width(self, row: Row) -> int | None:
        """Tokens that the present forward appends for `row`, padding included."""
        if row.padded is not None:
            return row.padded
        entry = self._entry
        for call in (entry.attention if entry is not None else None) or ():
            if call.cache == "paged" or isinstance(call.k, list):
                # Packed rows: the call's length is the sum of theirs.
                return row.tokens
            if call.q is not None and call.cache != "recurrent":
                return call.q
        return row.tokens

    def _find(self, entry: Entry, row: Row) -> Sequence | None:
        key = row_key(entry, row)
        if key is None:
            return None
        known = self._known
        state = known.get(key)
        if state is None:
            if row.seq is None and len(known) == 1 and next(iter(known))[0] == entry.model:
                return next(iter(known.values()))
            state = known[key] = Sequence(row.seq)
            if len(known) > BOUND:
                known.popitem(last=False)
        elif len(known) > 1:
            known.move_to_end(key)
        return state

    def _book(self) -> None:
        """Move every sequence of the entry before past it."""
        entry = self._entry
        if entry is None:
            return
        for index, (row, state, seen) in enumerate(zip(self.rows, self.states, self.observed, strict=True)):
            if state is None:
                continue
            kind = row.phase or self.kind
            if kind in FORWARD_PHASES:
                self._book_forward(kind, index, row, state, seen)
            else:
                self._book_event(kind, entry, row, state)
            if not state.kinds or kind not in FORWARD_PHASES:
                _note_kinds(entry, kind, state)
            state.settled = state.decoded and not (
                state.pads or state.pending or state.trim or state.adopted or state.verify
            )
            if row.finish is not None:
                self._known.pop((entry.model, row.seq), None)
        if entry.rows is None and len(self._known) > 1:
            self._book_unnamed(entry)
        if self.kind == "save":
            self._note_saved(entry)
        self._entry = None

    def _book_unnamed(self, entry: Entry) -> None:
        """An event that does not say whose it is, while several sequences are known."""
        for key, state in self._known.items():
            if key[0] != entry.model:
                continue
            if self.kind == "finalize":
                state.pads, state.pending = 0, False
            elif self.kind in ("trim", "rollback", "adopt", "load"):
                state.position = None

    def _book_forward(self, kind: str, index: int, row: Row, state: Sequence, seen: int | None) -> None:
        assert self._entry is not None
        state.trim = state.adopted = state.verify = None
        width = row.tokens if kind == "decode" else self.width(row)
        fed = row.tokens
        if fed is None and (width == 1 or len(self.rows) == 1):
            # Of several rows some may be padded.
            fed = width
        begin = state.position if seen is None else seen
        if state.position is None and not state.fed:
            state.start = max(begin or 0, 0)
        state.other = None
        if fed is None or width is None or begin is None:
            state.position = None
        elif begin < 0:
            state.position = begin + width
        elif fed == 0 and width > 0:
            state.pads += width
            state.padded = state.pending = True
        else:
            state.position = begin + fed
            # Left padding is part of the first feed only; later it is history that the row still carries.
            left = 0 if state.fed else row.left_padding or 0
            self._book_padding(row, state, width - fed - left)
        state.fed += fed or 0
        if kind == "verify" and begin is not None and fed is not None:
            state.verify = Verify(self._entry.step, begin, begin + fed)
            least = 1 if row.accepted is None else row.accepted + 1
            state.other = range(begin + least, begin + (fed if row.accepted is None else least + 1))
        state.rings = self._rings() or state.rings
        state.decoded = kind == "decode" or (kind == "verify" and state.decoded)

    def _book_padding(self, row: Row, state: Sequence, extra: int) -> None:
        if extra > 0:
            state.pads, state.padded = extra, True
        elif not state.pending:
            # A row that goes on at its true position after padding has shed it, recorded or not.
            state.pads = 0
        if row.right_padding or (extra > 0 and self._batched()):
            state.pending = True

    def _rings(self) -> dict[str | None, int | None] | None:
        """Families of the present forward, each with the bound of its plain ring; None for other caches."""
        assert self._entry is not None
        seen = [call for call in self._entry.attention or () if call.cache is not None]
        return {call.family: ring_bound(call, self.run.facts(call.family)) for call in seen}

    def _batched(self) -> bool:
        assert self._entry is not None
        return any(call.cache in BATCHED for call in self._entry.attention or ())

    def _book_event(self, kind: str, entry: Entry, row: Row, state: Sequence) -> None:
        if kind in ("trim", "rollback"):
            self._book_trim(kind, entry, row, state)
        elif kind == "adopt":
            state.restart(0)
            state.trim = state.verify = None
            state.adopted = row if entry.refused is None else None
            state.position = adopted_length(row) if entry.refused is None else 0
            state.start = state.position or 0
        elif kind == "load":
            state.restart(0)
            state.trim = state.verify = None
            state.position = row.restored if row.restored is not None else row.offset
            state.start = state.position or 0
        elif kind == "finalize":
            state.pads, state.pending = 0, False

    def _book_trim(self, kind: str, entry: Entry, row: Row, state: Sequence) -> None:
        layers = tuple(
            call for call in entry.attention or () if call.asked is not None or call.done is not None
        )
        asked, done = asked_and_done(entry, row)
        held = None if state.position is None else state.position + state.pads
        verify = state.verify if kind == "rollback" else None
        if state.trim is None or state.trim.honoured:
            state.trim = Trim(kind, entry.step, held, state.pads, asked, done, layers, entry.refused, verify)
        cut = (done if done is not None else asked) or 0
        if entry.refused is not None:
            return
        state.other = None
        pads = min(state.pads, cut)
        state.pads -= pads
        if state.position is not None:
            state.position = max(state.position - (cut - pads), 0)
        state.trimmed += cut - pads

    def _note_saved(self, entry: Entry) -> None:
        kinds, layers = cache_kinds(entry)
        if kinds and (entry.model in self.saved or len(self.saved) < BOUND):
            self.saved[entry.model] = (kinds, layers)


def _observed(calls: list[Attention], index: int, row: Row) -> int | None:
    for call in calls:
        offset = offset_at(call, index)
        if offset is not None:
            return offset
    return row.offset


def _restarts(kind: str, seen: int | None, position: int | None) -> bool:
    """A prompt fed from its start (or from the left padding before it) by a sequence that was further on."""
    return kind in ("prefill", "chunk") and seen is not None and seen <= 0 and (position or 0) > 0


def _note_kinds(entry: Entry, kind: str, state: Sequence) -> None:
    if entry.refused is not None:
        return
    if kind == "quantize":
        state.kinds = {}
    kinds, layers = cache_kinds(entry)
    if kinds:
        state.kinds = {**state.kinds, **kinds}
        state.layers = layers
