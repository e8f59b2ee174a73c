"""What is known of the run so far: header, models seen, and the state of every sequence."""

from __future__ import annotations

from mlxdiag.inspect.facts import Facts, derive
from mlxdiag.inspect.sequences import Sequences
from mlxdiag.traces.types import FORWARD_PHASES, Entry, Header, Model, Scheduler

_BOUND = 4096
"""Families remembered; a file with endlessly many names must not grow the run."""


def is_model(entry: Entry) -> bool:
    """Whether the entry tells of a model; by hand its phase may be left out."""
    return entry.phase == "model" or (entry.phase is None and entry.rows is None and entry.kind == "model")


class Run:
    """State shared by the rules, of bounded size. The inspector alone moves it on, by `enter`."""

    def __init__(self, header: Header) -> None:
        self.header = header
        self.scheduler = header.scheduler or Scheduler()
        self.models: dict[str | None, Entry | Model] = {}
        self.model: Entry | Model | None = header.model
        """The model of the present entry."""
        self.step: int | None = None
        self.before: int | None = None
        """The step of the entry before."""
        self.last: Entry | None = None
        """The last forward or cache event read."""
        self.ended = False
        self.truncated = False
        self.sequences = Sequences(self)
        self._facts: dict[tuple[str | None, str | None], Facts] = {}
        if header.model is not None:
            self.models[header.model.name] = header.model

    @property
    def recorded(self) -> bool:
        """A recorder wrote this file itself: it sets `level`, and nothing was imported or replayed.

        Only of such a file may one expect every step (a replay runs one model of several), and an `end` line.
        """
        return self.header.level is not None and not {"importer", "of"} & set(self.header.source or {})

    def enter(self, entry: Entry) -> bool:
        """Move on to `entry`. True when the sequences found nothing in it for an MD2 or MD6 rule."""
        phase = "model" if is_model(entry) else entry.phase
        if phase in ("model", "end"):
            self.sequences.rest()
            if phase == "model":
                self._learn(entry)
            else:
                self.ended = True
            return False
        if entry.model is not None:
            self.switch(entry)
        if phase == "note":
            # It may tell of an earlier step: what a recorder reads only when nobody waits for it.
            self.before = entry.step
        else:
            self.before = self.step
            if entry.step is not None:
                self.step = entry.step
        self.last = entry
        return bool(self.sequences.feed(entry))

    def switch(self, entry: Entry) -> None:
        """Make the model that the entry names the present one; an unknown name changes nothing."""
        self.model = self.models.get(entry.model, self.model)

    def facts(self, family: str | None) -> Facts:
        """The config's word on a family of the present model."""
        model = self.model
        name = None if model is None else (model.model if isinstance(model, Entry) else None) or model.name
        known = self._facts.get((name, family))
        if known is None:
            known = derive(model, family)
            if len(self._facts) < _BOUND:
                self._facts[(name, family)] = known
        return known

    def is_forward(self, entry: Entry) -> bool:
        """Whether a model ran in this entry."""
        return (entry.phase or entry.kind) in FORWARD_PHASES

    def _learn(self, entry: Entry) -> None:
        self.model = entry
        if len(self.models) < _BOUND:
            self.models[entry.model or entry.name] = entry
        self._facts.clear()
