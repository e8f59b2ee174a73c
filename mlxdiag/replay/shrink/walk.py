"""One walk over a trace that reads its numbers, or writes it anew with other lengths."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from mlxdiag.models.configs.sizes import WINDOWS
from mlxdiag.replay import whole
from mlxdiag.replay.cache_steps import DEFAULT_SEQ
from mlxdiag.replay.ops import Feed
from mlxdiag.replay.shrink import events, forwards
from mlxdiag.replay.shrink.numbers import Key, Numbers
from mlxdiag.replay.tape import PAD, Tape
from mlxdiag.traces.types import FORWARD_PHASES, Entry, Family, Header, Model, Row, Scheduler, Trace

PROMPT_PHASES = ("prefill", "chunk")


class Edits(msgspec.Struct, frozen=True):
    """What a smaller trace leaves out or makes shorter."""

    dropped: frozenset[int] = frozenset()
    """Numbers of entries."""
    gone: frozenset[str] = frozenset()
    """Sequences whose rows are left out everywhere."""
    values: dict[Key, int] = {}
    """Lengths that are not the trace's own."""


Memo = dict[tuple[str, int, int], Any]
"""What the reading found out about an entry, for every writing."""


class Walk:
    """Keeps where every sequence is. `memo` is filled while reading and read while writing."""

    def __init__(self, trace: Trace, numbers: Numbers, edits: Edits, memo: Memo) -> None:
        self.trace = trace
        self.numbers = numbers
        self.edits = edits
        self.memo = memo
        self.tapes: dict[str, Tape] = {}
        self.prompts: dict[tuple[str, int], int] = {}
        """Tokens fed of a prompt, over the whole walk, by sequence and the prompt's recorded total."""
        self.healed = False
        """An error that the recorded program ended with cannot have happened any more."""
        self.families: dict[str, Family] = {}
        """As the trace has them, old windows and all."""
        self.cap: int | None = None

    def header(self) -> Header:
        header = self.trace.header
        scheduler = header.scheduler
        if scheduler is not None:
            scheduler = self._scheduler(scheduler)
        model = header.model
        if model is not None:
            model = msgspec.structs.replace(model, **self._model(model))
        return msgspec.structs.replace(header, scheduler=scheduler, model=model)

    def entries(self) -> Iterator[tuple[int, Entry]]:
        """What is left, with numbers in the original: no dropped entry, none without a row."""
        self._count_prompts()
        for number, entry in enumerate(self.trace.entries):
            if number in self.edits.dropped:
                self.healed |= entry.error is not None
                continue
            made = self._entry(number, entry)
            if made is not None:
                yield number, made

    def known(self, what: str, number: int, row: int, find: Callable[[], Any]) -> Any:
        """What the reading found; found now, if this is the reading."""
        key = (what, number, row)
        if key not in self.memo:
            self.memo[key] = find()
        return self.memo[key]

    def rows(self, entry: Entry) -> list[tuple[int, str, Row]]:
        """Rows that stay: batch index in the original, sequence, row."""
        rows = entry.rows
        if rows is None:
            call = next((a for a in entry.attention or [] if a.q is not None), None)
            if call is None:
                return []
            offset = call.offset if isinstance(call.offset, int) else None
            rows = [Row(seq=DEFAULT_SEQ, offset=offset, tokens=call.q)]
        named = [
            (i, row.seq or (DEFAULT_SEQ if len(rows) == 1 else f"row-{i}"), row) for i, row in enumerate(rows)
        ]
        return [one for one in named if one[1] not in self.edits.gone]

    def total(self, number: int, index: int, seq: str, total: int) -> int:
        """Length of a whole prompt: what is fed of it, and what the trace never showed."""
        fed = self.prompts.get((seq, total), 0)
        unseen: int = self.known("unseen", number, index, lambda: total - fed)
        if unseen > 0:
            first = self.known("first", -1, total, lambda: number)
            unseen = self.numbers.variable(("unseen", first, total), unseen, 0)
        return max(fed + unseen, 0)

    def is_whole(self, entry: Entry, rows: list[tuple[int, str, Row]]) -> bool:
        """Whether a forward of these rows feeds all tokens of its sequences, whatever was fed before."""
        scheduler = self.trace.header.scheduler or Scheduler()
        return whole.cacheless(entry, [row for _, _, row in rows], scheduler) or all(
            whole.anew(entry, index, row) for index, _, row in rows
        )

    def tape(self, seq: str) -> Tape:
        return self.tapes.setdefault(seq, Tape(seq))

    def left(self, seq: str) -> int:
        """Padding in front of a sequence."""
        held = self.tape(seq).held
        return next((i for i, code in enumerate(held) if code != PAD), len(held))

    def feed(self, seq: str, tokens: int, left: int = 0, right: int = 0) -> None:
        tape = self.tape(seq)
        tape.feed(Feed(seq, tape.real, tokens, left, right, tape.generation).codes)

    def window(self, old: int | None) -> int | None:
        """The window that this one has become; equal windows stay equal."""
        return None if old is None else self.numbers.variable(("window", -1, old), old, 2)

    def window_of(self, family: str | None, own: int | None) -> int | None:
        """Old window of a sliding call: its own, or its family's."""
        known = self.families.get(family or "")
        if known is not None and known.attention not in (None, "sliding"):
            return None
        return own if own is not None else (known.window if known is not None else None)

    def _entry(self, number: int, entry: Entry) -> Entry | None:
        kind = entry.kind
        if kind == "model":
            return msgspec.structs.replace(entry, **self._model(entry))
        if kind in ("end", "note") or (not entry.rows and not entry.attention):
            return self._rest(entry)
        if kind in FORWARD_PHASES:
            return forwards.write(self, number, entry)
        return events.write(self, number, entry)

    def _rest(self, entry: Entry) -> Entry | None:
        """Notes keep the rows that are left; all else is as it was."""
        if entry.kind == "end" and entry.exit and self.healed:
            entry = msgspec.structs.replace(entry, exit=None)
        if not entry.rows:
            return entry
        rows = [row for _, _, row in self.rows(entry)]
        return msgspec.structs.replace(entry, rows=rows) if rows else None

    def _model(self, model: Model | Entry) -> dict[str, Any]:
        layers = dict(model.layers or {})
        self.families.update(layers)
        windows = {family.window for family in layers.values() if family.window is not None}
        for name, family in layers.items():
            slack = family.slack
            if slack:
                slack = self.numbers.variable(("slack", -1, slack), slack, 1)
            layers[name] = msgspec.structs.replace(family, window=self.window(family.window), slack=slack)
        config = dict(model.config or {})
        for name in WINDOWS:
            held = config.get(name)
            if type(held) is int and (held in windows or not windows):
                config[name] = self.window(held)
        return {
            "layers": layers if model.layers is not None else None,
            "config": config if model.config is not None else None,
        }

    def _scheduler(self, scheduler: Scheduler) -> Scheduler:
        changed: dict[str, Any] = {}
        for name, least in (("chunk", 1), ("pad_to", 1), ("max_kv", 1)):
            value = getattr(scheduler, name)
            if value is not None:
                changed[name] = self.numbers.variable((name, -1, 0), value, least)
        self.cap = changed.get("max_kv")
        return msgspec.structs.replace(scheduler, **changed)

    def _count_prompts(self) -> None:
        for number, entry in enumerate(self.trace.entries):
            if entry.kind in PROMPT_PHASES and number not in self.edits.dropped:
                for i, seq, row in self.rows(entry):
                    if row.tokens is not None and row.total is not None:
                        if (seq, row.total) in self.prompts and not row.offset:
                            continue  # the same tokens again
                        fed = self.numbers.variable(("tokens", number, i), row.tokens, min(row.tokens, 1))
                        key = (seq, row.total)
                        self.prompts[key] = self.prompts.get(key, 0) + fed
