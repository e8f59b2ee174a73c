"""The trace while it is being written from a log: steps that later lines may still add to."""

from __future__ import annotations

import re
from collections.abc import Hashable, Sequence
from typing import Any

import msgspec

from mlxdiag.traces.checks import contradiction
from mlxdiag.traces.types import Attention, Entry, Family, Fault, Header, Mask, Row, Scheduler, Trace

LARGEST = 1 << 40
"""Numbers beyond this are no lengths, and a line that holds one is not believed."""
_RECENT = 4096
"""Steps and sequences that a later line can still refer to."""
_OWN_NAMES = re.compile(r"(?:seq|slot|uid)-\d{1,12}")
"""Names that a server counts up itself, so that they say nothing about whoever asked."""


class Step:
    """One entry under construction. `rows` and `calls` are replaced, not changed in place."""

    __slots__ = ("calls", "error", "exit", "inferred", "mask", "notes", "phase", "refused", "rows")

    def __init__(self, phase: str | None) -> None:
        self.phase = phase
        self.rows: Sequence[Row] = ()
        self.calls: Sequence[Attention] = ()
        self.mask: Mask | None = None
        self.error: Fault | None = None
        self.refused: str | None = None
        self.exit: int | None = None
        self.notes: tuple[str, ...] = ()
        self.inferred: dict[str, str] | None = None

    def note(self, text: str) -> None:
        if text not in self.notes:
            self.notes = (*self.notes, text)

    def infer(self, field: str, why: str) -> None:
        """Mark a field as worked out, not read; the first reason stands."""
        if self.inferred is None:
            self.inferred = {}
        self.inferred.setdefault(field, why)

    def entry(self, number: int) -> Entry | None:
        """The finished entry; None where a hostile log made it contradict itself."""
        told = list(self.notes)
        if self.inferred:
            told.append("inferred: " + ", ".join(f"{name} ({why})" for name, why in self.inferred.items()))
        entry = Entry(
            step=number,
            phase=self.phase,
            rows=list(self.rows) or None,
            mask=self.mask,
            attention=list(self.calls) or None,
            error=self.error,
            refused=self.refused,
            exit=self.exit,
            note="; ".join(told) or None,
        )
        try:
            msgspec.convert(msgspec.to_builtins(entry), Entry)
        except msgspec.ValidationError:
            return None
        return None if contradiction(entry) else entry


class Draft:
    """Collects what the importers read. `model` is the entry of a config.json, where one was given."""

    def __init__(self, model: Entry | None = None) -> None:
        self.model = model
        self.steps: list[Step] = []
        self.sources: dict[str, None] = {}
        """Formats that something was taken from, in order."""
        self.impossible = 0
        """Steps that were left out, since what the log says of them cannot be."""
        self.program: str | None = None
        self.version: str | None = None
        self.architecture: str | None = None
        self.scheduler: dict[str, Any] = {}
        self.windows: dict[int, int] = {}
        """Windows that the log itself shows, and how often."""
        self.model_inferred: dict[str, str] = {}
        self.names: dict[Hashable, str] = {}
        self._keyed: dict[Hashable, Step] = {}
        self._labels: dict[Hashable, int] = {}
        self._said: set[Hashable] = set()

    def step(self, phase: str | None, key: Hashable = None) -> Step:
        """A new step; with a `key`, the recent one of that key."""
        if key is not None and key in self._keyed:
            return self._keyed[key]
        made = Step(phase)
        self.steps.append(made)
        if key is not None:
            if len(self._keyed) >= _RECENT:
                del self._keyed[next(iter(self._keyed))]
            self._keyed[key] = made
        return made

    def recent(self, key: Hashable) -> Step | None:
        return self._keyed.get(key)

    def seq(self, name: Hashable, prefix: str = "req") -> str | None:
        """A label for a sequence: a server's own count as it is, anything that a client chose relabelled."""
        if name is None:
            return None
        if isinstance(name, str) and _OWN_NAMES.fullmatch(name):
            return name
        key = (prefix, name)
        if key not in self.names:
            self.names[key] = f"{prefix}-{len(self.names) + 1}"
        return self.names[key]

    def first(self, fact: Hashable) -> bool:
        """Whether this is the first time that the draft hears of a fact."""
        new = fact not in self._said
        self._said.add(fact)
        return new

    def label(self, token: Hashable) -> int:
        """A number for a token, the same for equal ones: what it is cannot be read from it."""
        return self._labels.setdefault(token, len(self._labels))

    def window(self) -> int | None:
        """Of the sliding layers: what the config says, else the only one that the log shows."""
        if self.model is not None:
            found = {f.window for f in (self.model.layers or {}).values() if f.attention == "sliding"}
            return found.pop() if len(found) == 1 else None
        return next(iter(self.windows)) if len(self.windows) == 1 else None

    def family(self, kind: str) -> str | None:
        """The name of the model's layers of this kind: the config's own, else the kind."""
        if self.model is None:
            return kind
        named = [name for name, f in (self.model.layers or {}).items() if f.attention == kind]
        return named[0] if len(named) == 1 else None

    def trace(self) -> Trace:
        """The finished trace, steps numbered from 1 in the order of the log."""
        model = self.model or self._seen_model()
        entries = [] if model is None else [model]
        number = 1
        for step in self.steps:
            entry = step.entry(number)
            if entry is None:
                self.impossible += 1
            else:
                entries.append(entry)
                number += 1
        return Trace(self._header(), entries)

    def _seen_model(self) -> Entry | None:
        """What the log shows of the model: its architecture, and the layer families that were measured."""
        layers = {}
        kinds = {call.family: call.cache for step in self.steps for call in step.calls}
        window = self.window()
        if window is not None and "sliding" in kinds:
            layers["sliding"] = Family(
                attention="sliding", cache=kinds["sliding"] or "rotating", window=window
            )
        if "full" in kinds:
            layers["full"] = Family(attention="full", cache="dense")
        if self.architecture is None and not layers:
            return None
        told = ", ".join(f"{name} ({why})" for name, why in self.model_inferred.items())
        return Entry(
            phase="model",
            architecture=self.architecture,
            layers=layers or None,
            note=f"inferred: {told}" if told else None,
        )

    def _header(self) -> Header:
        fields = {name for step in self.steps for name in step.inferred or ()} | set(self.model_inferred)
        source: dict[str, Any] = {
            "program": self.program,
            "version": self.version,
            "importer": ", ".join(self.sources) or None,
            "inferred": sorted(fields) or None,
        }
        return Header(
            source={name: value for name, value in source.items() if value is not None},
            scheduler=Scheduler(**self.scheduler) if self.scheduler else None,
        )


def number(text: str | int | None) -> int | None:
    """A length out of a log; None where it is none: below zero, or larger than any can be."""
    if isinstance(text, bool) or text is None:
        return None
    if isinstance(text, int):
        return text if 0 <= text < LARGEST else None
    text = text.strip('"')
    return int(text) if len(text) < 14 and re.fullmatch(r"\d+", text) else None


def filled(row: Row, **fields: Any) -> Row:
    """The row with these fields where it had none."""
    new = {name: value for name, value in fields.items() if getattr(row, name) is None and value is not None}
    return msgspec.structs.replace(row, **new) if new else row
