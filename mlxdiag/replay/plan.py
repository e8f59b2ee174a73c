"""Trace to plan: the schedule as data, with what the trace does not say filled in and named."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from mlxdiag.errors import UnjudgedError, UnreadableError
from mlxdiag.replay import cache_steps, caches, callers, whole
from mlxdiag.replay.cache_steps import DEFAULT_SEQ
from mlxdiag.replay.misfit import POLICIES
from mlxdiag.replay.ops import Event, Evict, Feed, Forward, Op, Plan, Regroup
from mlxdiag.replay.tape import Tape
from mlxdiag.traces.checks import place
from mlxdiag.traces.types import (
    FORWARD_PHASES,
    Attention,
    Entry,
    Family,
    Model,
    Row,
    Scheduler,
    Trace,
)

GROUPING_PHASES = ("merge", "filter", "extend")
CACHE_PHASES = ("finalize", "save", "load", "extract", "quantize")
"""An extract takes a copy, and leaves the row where it is."""


class ImpossibleError(UnreadableError):
    """A schedule that cannot be run from some entry on; the `before` entries in front of it can."""

    def __init__(self, message: str, before: int) -> None:
        super().__init__(message)
        self.before = before


def model_of(trace: Trace) -> Model:
    """The model that is replayed: the one that verifies drafts, else that of the first forward.

    Raises:
        UnreadableError: the trace names no architecture.
    """
    entries = [e for e in trace.entries if e.kind == "model"]
    wanted = _target(trace)
    entry = next((e for e in entries if e.model == wanted), entries[0] if entries else None)
    if entry is not None and entry.architecture:
        return Model(
            name=entry.name,
            architecture=entry.architecture,
            config=entry.config,
            layers=entry.layers,
            tokens=entry.tokens,
        )
    if trace.header.model is not None and trace.header.model.architecture:
        return trace.header.model
    raise UnreadableError(
        "model.architecture is not in the trace, so no model code can be chosen; add "
        "`model: {architecture: gemma4_text}` to the header, or a model entry"
    )


def lay(
    trace: Trace, families: dict[str, Family], *, source: str = "trace", model: Model | None = None
) -> Plan:
    """The plan of `trace` for layers of `families` (the config's, with the trace's windows laid over).

    Raises:
        ImpossibleError: an impossible schedule, with step and field.
        UnjudgedError: no forward to run.
    """
    model = model or model_of(trace)
    planner = _Planner(trace, families)
    try:
        ops = tuple(planner.ops())
    except UnreadableError as error:
        raise ImpossibleError(f"{source}: {error}", planner.whole) from None
    except UnjudgedError as error:
        raise UnjudgedError(f"{source}: {error}") from None
    if not any(isinstance(op, Forward) for op in ops):
        raise UnjudgedError(f"{source}: holds no forward (prefill, chunk, decode or verify) to replay")
    return Plan(
        source=source,
        architecture=model.architecture or "",
        config=model.config or {},
        families=families,
        caches=planner.chosen,
        ops=ops,
        lengths={seq: tape.longest for seq, tape in planner.tapes.items()},
        shared=planner.shared,
        scheduler=planner.scheduler,
        misfit=planner.scheduler.misfit or callers.recorded_misfit(trace) or "strict",
        undecided=planner.scheduler.misfit is None and callers.undecided(trace),
        planted=tuple(callers.planted(ops, planner.chosen)),
        notes=tuple(dict.fromkeys(planner.notes)),
    )


class _Planner:
    """Walks the entries once, keeping each sequence's tape."""

    def __init__(self, trace: Trace, families: dict[str, Family]) -> None:
        self.trace = trace
        self.families = families
        self.scheduler = trace.header.scheduler or Scheduler()
        self.chosen = caches.choose(trace, families)
        self.capped = any(choice.kind == "front_trim" for choice in self.chosen.values())
        self.tapes: dict[str, Tape] = {}
        self.shared: dict[str, tuple[str, int]] = {}
        self.notes: list[str] = []
        self.idle: list[str] = []
        """Steps that fed nothing: an imported answer has one for each of its tokens."""
        self.apart: list[str] = []
        """Steps whose rows the engine packed."""
        self.evicts = any(e.kind == "evict" for e in trace.entries)
        self.model = _target(trace)
        self.whole = 0
        """Entries that were laid before the one at hand."""
        self.stored: str | None = None
        """The sequence that was saved last, whose tokens an adopted prefix shares."""
        self.pending: set[str] = set()
        """Sequences with right padding that is announced: a finalize entry has still to roll it away, or the
        program's own mask hides it."""
        self.hidden: set[str] = set()
        """Those of them whose padding the program's mask hides, for as long as they live."""

    def ops(self) -> Iterator[Op]:
        for name in ("chunk", "max_kv", "keep"):
            value = getattr(self.scheduler, name)
            if value is not None and value < 0:
                raise UnreadableError(f"scheduler.{name}: {value} tokens cannot be")
        if self.scheduler.store not in (None, "trie"):
            raise UnreadableError(f"scheduler.store: {self.scheduler.store!r} is unknown; known: trie")
        policy = self.scheduler.misfit
        if policy is not None and policy not in POLICIES:
            raise UnreadableError(f"scheduler.misfit: {policy!r} is unknown; known: {', '.join(POLICIES)}")
        finalizing = any(e.kind == "finalize" for e in self.trace.entries)
        for number, entry in enumerate(self.trace.entries):
            where = place(entry.step, number)
            self.whole = number
            if entry.kind in ("model", "end") or (not entry.rows and not entry.attention):
                continue
            if self._other_model(entry):
                continue
            if entry.step is None:
                entry = msgspec.structs.replace(entry, step=number + 1)
            if entry.refused is not None:
                self.notes.append(f"{where}: {entry.kind} was refused by the engine, nothing to run")
                continue
            if entry.kind in FORWARD_PHASES:
                if _width(entry, entry.rows or [_row_of(entry.attention or [], where)]):
                    yield from self._forward(entry, where, finalizing)
                else:
                    self.idle.append(where)
            else:
                yield from self._event(entry, where)
        self._once_for_all(self.idle, "nothing was fed, nothing to run")
        packed = "rows of different lengths without padding are run one by one: a replay packs none"
        self._once_for_all(self.apart, packed)

    def _once_for_all(self, steps: list[str], said: str) -> None:
        """A note that would stand there for every step of a server's run."""
        if steps:
            more = f" and {len(steps) - 1} more" if len(steps) > 1 else ""
            self.notes.append(f"{steps[0]}{more}: {said}")

    def _other_model(self, entry: Entry) -> bool:
        if entry.model is None or self.model is None:
            return False
        if entry.model != self.model:
            self.notes.append(f"forwards of model {entry.model} are left out: only {self.model} is replayed")
        return entry.model != self.model

    def _one_by_one(self, entry: Entry, rows: list[Row]) -> list[int]:
        """Rows that feed something, where they cannot have been one array: the engine packed them."""
        fed = [i for i, row in enumerate(rows) if row.tokens != 0 or row.padded]
        padding = any(row.padded or row.left_padding or row.right_padding for row in rows)
        measured = next((a.q for a in entry.attention or [] if a.q is not None), None)
        if len(rows) < 2 or padding or entry.mask is not None:
            return []
        lengths = [rows[i].tokens or 0 for i in fed]
        packed = measured == sum(lengths) > max(lengths, default=0)
        going = any(self.tapes[row.seq].held for row in rows if row.seq in self.tapes)
        ragged = measured is None and going and (len(set(lengths)) > 1 or len(fed) < len(rows))
        return fed if packed or ragged else []

    def _packed(self, entry: Entry, where: str, finalizing: bool, fed: list[int]) -> Iterator[Op]:
        rows, outputs = entry.rows or [], entry.output or []
        self.apart.append(where)
        for i in fed:
            output = [outputs[i]] if i < len(outputs) else None
            row = msgspec.structs.replace(rows[i], seq=rows[i].seq or f"row-{i}")
            alone = msgspec.structs.replace(entry, rows=[row], attention=None, output=output)
            yield from self._forward(alone, where, finalizing, whole.anew(entry, i, rows[i]))

    def _forward(self, entry: Entry, where: str, finalizing: bool, anew: bool = False) -> Iterator[Op]:
        """`anew`: its one row begins again, by calls that the entry does not hold any more."""
        fed = self._one_by_one(entry, entry.rows or [])
        if fed:
            yield from self._packed(entry, where, finalizing, fed)
            return
        rows = entry.rows or [_row_of(entry.attention or [], where)]
        width = _width(entry, rows)
        cache_steps.bounded(width, where)
        seqs = [row.seq or (DEFAULT_SEQ if len(rows) == 1 else f"row-{i}") for i, row in enumerate(rows)]
        _once(seqs, where)
        without = whole.cacheless(entry, rows, self.scheduler)
        again = self._again(entry, seqs, rows, without, anew)
        for i, (seq, row) in enumerate(zip(seqs, rows, strict=True)):
            yield from self._catch_up(entry, seq, row, where, i, len(rows))
        feeds = tuple(
            self._feed(seq, row, width, f"{where}: rows[{i}]", bool(entry.attention))
            for i, (seq, row) in enumerate(zip(seqs, rows, strict=True))
        )
        if finalizing:
            self.pending |= {feed.seq for feed in feeds if feed.right}
        if any(call.key_padding is not None for call in entry.attention or []):
            self.hidden |= {feed.seq for feed in feeds if feed.right and feed.tokens}
            self.pending |= self.hidden & set(seqs)
        yield Forward(
            step=entry.step,
            phase=entry.kind,
            feeds=feeds,
            callers=tuple(callers.of(entry, feeds[0], self.families, self.chosen, where)),
            unmasked=tuple(
                callers.unmasked(entry, self.families, self.chosen, hidden=bool(self.hidden & set(seqs)))
            ),
            sampled=tuple(_sampled(entry, i) for i in range(len(rows))),
            batched=len(rows) > 1 or any((a.cache or "").startswith("batch") for a in entry.attention or []),
            finalize_pending=bool(self.pending & set(seqs)),
            columns=callers.columns(entry),
            cacheless=without,
            anew=() if without else again,
        )
        if self.scheduler.max_kv and not self.evicts and self.capped:
            yield Evict(entry.step, tuple(seqs), self.scheduler.max_kv, self.scheduler.keep or 0)

    def _again(
        self, entry: Entry, seqs: list[str], rows: list[Row], without: bool, anew: bool
    ) -> tuple[str, ...]:
        """The sequences that this forward feeds from their first token again; they hold nothing any more.

        Of a batch, whose caches are one, either all rows begin or none.
        """
        held = [seq for seq in seqs if seq in self.tapes and self.tapes[seq].held]
        anew = anew or all(whole.anew(entry, i, row) for i, row in enumerate(rows))
        if not (without or anew):
            return ()
        for seq in held:
            self.tapes[seq].begin_again()
        return tuple(held)

    def _catch_up(self, entry: Entry, seq: str, row: Row, where: str, index: int, batch: int) -> Iterator[Op]:
        """The prefix that the trace does not hold, in chunks of the scheduler's size."""
        known = seq in self.tapes
        tape = self.tapes.setdefault(seq, Tape(seq))
        offset = row.offset if row.offset is not None else _offset_of(entry, batch)
        if offset is None:
            return
        missing = tape.missing_before(offset, f"{where}: rows[{index}].offset")
        if not missing:
            return
        cache_steps.bounded(offset, f"{where}: rows[{index}].offset")
        chunk = self.scheduler.chunk or missing
        why = f"{seq}: {missing} tokens before {where} are not in the trace; fed in pieces of {chunk}"
        self.notes.append(why if known else why + " (the trace begins in the middle)")
        while missing:
            feed = Feed(seq, tape.real, min(chunk, missing), generation=tape.generation)
            tape.feed(feed.codes)
            missing -= feed.tokens
            phase = "chunk" if feed.start else "prefill"
            yield Forward(step=entry.step, phase=phase, feeds=(feed,), assumed=why)
            if self.scheduler.max_kv and self.capped:
                yield Evict(entry.step, (seq,), self.scheduler.max_kv, self.scheduler.keep or 0)

    def _feed(self, seq: str, row: Row, width: int, where: str, measured: bool) -> Feed:
        tokens = row.tokens if row.tokens is not None else row.padded if row.padded is not None else width
        if row.padded is not None and row.padded < tokens:
            raise UnreadableError(f"{where}.padded: {row.padded} is less than the {tokens} real tokens")
        right = (row.padded - tokens) if row.padded is not None else (row.right_padding or 0)
        left = width - tokens - right
        if left < 0:
            raise UnreadableError(
                f"{where}: {tokens} tokens and {right} padding do not fit the {width} queries of the step"
            )
        if left and not row.left_padding and row.right_padding is None and row.padded is None and measured:
            right, left = left, 0
        tape = self.tapes[seq]
        cache_steps.bounded(tape.offset + width, where)
        feed = Feed(seq, tape.real, tokens, left, right, tape.generation, row.offset)
        tape.feed(feed.codes)
        return feed

    def _event(self, entry: Entry, where: str) -> Iterator[Op]:
        rows = [row for row in entry.rows or [] if row.seq is not None] or [Row(seq=DEFAULT_SEQ)]
        seqs = tuple(row.seq or DEFAULT_SEQ for row in rows)
        if entry.kind == "adopt" or (entry.kind == "load" and not set(seqs) & set(self.tapes)):
            for i, row in enumerate(rows):
                adopted = cache_steps.adoption(entry, row, f"{where}: rows[{i}]", self.tapes)
                if self.scheduler.store is not None and self.stored is not None:
                    self.shared[adopted.seq] = self.stored, adopted.matched
                    # An entry may be stored under a token that was emitted and never fed.
                    owner = self.tapes[self.stored]
                    owner.longest = max(owner.longest, adopted.matched)
                yield adopted
            return
        if entry.kind in GROUPING_PHASES:
            _once(seqs, where)
            for seq in seqs:
                # Batches are made before their rows are fed.
                self.tapes.setdefault(seq, Tape(seq))
            yield Regroup(entry.step, entry.kind, seqs)
            return
        self._require(seqs, where)
        if entry.kind in ("trim", "rollback"):
            yield from cache_steps.cuts(entry, rows, where, self.tapes, self.families)
        elif entry.kind == "evict":
            yield from cache_steps.evictions(entry, rows, where, self.scheduler)
        elif entry.kind in CACHE_PHASES:
            if entry.kind == "finalize":
                self.pending -= set(seqs)
                for seq in seqs:
                    self.tapes[seq].finalize()
            if entry.kind == "save":
                self.stored = seqs[-1]
            yield Event(entry.step, entry.kind, seqs, self.scheduler.kv_bits)

    def _require(self, seqs: tuple[str, ...], where: str) -> None:
        for i, seq in enumerate(seqs):
            if seq not in self.tapes:
                raise UnreadableError(f"{where}: rows[{i}].seq: {seq} has not been fed before")


def _target(trace: Trace) -> str | None:
    named = [e for e in trace.entries if e.model is not None and e.kind in FORWARD_PHASES]
    return next((e.model for e in named if e.kind == "verify"), named[0].model if named else None)


def _once(seqs: Sequence[str], where: str) -> None:
    for i, seq in enumerate(seqs):
        if seq in seqs[:i]:
            raise UnreadableError(f"{where}: rows[{i}].seq: {seq} stands twice in one batch")


def _row_of(attention: list[Attention], where: str) -> Row:
    """The single row of a trace that only holds attention calls."""
    call = next((a for a in attention if a.q is not None), None)
    if call is None:
        raise UnreadableError(f"{where}: neither rows nor attention[0].q say how many tokens were fed")
    offset = call.offset if isinstance(call.offset, int) else None
    return Row(seq=DEFAULT_SEQ, offset=offset, tokens=call.q)


def _offset_of(entry: Entry, batch: int) -> int | None:
    """Where the layers of a single row stood, for rows that record no offset themselves."""
    if batch != 1:
        return None
    return next((a.offset for a in entry.attention or [] if isinstance(a.offset, int)), None)


def _width(entry: Entry, rows: list[Row]) -> int:
    measured = next((a.q for a in entry.attention or [] if a.q is not None), None)
    if measured is not None:
        return measured
    fresh = [row for row in rows if not row.offset or row.offset < 0]
    left = {id(row): (row.left_padding or 0) for row in fresh}
    return max(
        (row.padded or (row.tokens or 0) + (row.right_padding or 0)) + max(0, left.get(id(row), 0))
        for row in rows
    )


def _sampled(entry: Entry, row: int) -> int | None:
    outputs = entry.output or []
    return outputs[row].row if row < len(outputs) else None
