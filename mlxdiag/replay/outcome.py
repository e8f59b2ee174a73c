"""A replayed trace in one row: did it crash, what was attended wrongly, how far off are the logits."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
from msgspec import UNSET

from mlxdiag.traces.types import FORWARD_PHASES, Attention, Entry, Trace


class StepOutcome(msgspec.Struct, frozen=True):
    """One forward. Query counts are over the family where they are largest; padding queries are left out."""

    step: int | None
    phase: str
    seqs: tuple[str, ...]
    queries: int
    """Real queries whose visible keys were read."""
    empty: int
    wrong_window: int
    """Queries that miss a required key, or see one that is too old, too new or not theirs."""
    padding: int
    """Queries that see padding, or tokens that were taken back."""
    taken_back: int
    """Queries that see tokens taken back, as far as the trace lists them."""
    only_taken_back: bool
    """No padding is among what `padding` counts."""
    foreign: int
    """Pairs of a query and a key of another sequence."""
    misfits: tuple[tuple[str, int, int], ...]
    """(family, mask key axis, returned keys) where they differ."""
    fates: tuple[tuple[str, str], ...]
    """(family, fate and fallback) of masks that were not used as handed in."""
    max_abs: float | None
    first: int | None
    tolerance: float | None
    compared: int
    nan: int
    error: str | None

    @property
    def wrong(self) -> bool:
        """Anything that a right step does not show."""
        attended = self.empty or self.wrong_window or self.padding
        return bool(attended or self.nan or self.first is not None or self.error is not None)


class Outcome(msgspec.Struct, frozen=True):
    """One policy over the whole schedule."""

    policy: str
    steps: tuple[StepOutcome, ...]
    crash: str | None
    crash_step: int | None

    @property
    def empty(self) -> int:
        return sum(step.empty for step in self.steps)

    @property
    def wrong_window(self) -> int:
        return sum(step.wrong_window for step in self.steps)

    @property
    def padding(self) -> int:
        return sum(step.padding for step in self.steps)

    @property
    def nan(self) -> int:
        return sum(step.nan for step in self.steps)

    @property
    def compared(self) -> int:
        return sum(step.compared for step in self.steps)

    @property
    def max_abs(self) -> float | None:
        return max((s.max_abs for s in self.steps if s.max_abs is not None), default=None)

    @property
    def first_wrong(self) -> StepOutcome | None:
        """The first step that crashed, attended wrongly, or whose logits part from the single pass."""
        return next((step for step in self.steps if step.wrong), None)

    @property
    def tolerance(self) -> float | None:
        return next((step.tolerance for step in self.steps if step.tolerance is not None), None)


def summarise(policy: str, trace: Trace) -> Outcome:
    """Read a replayed trace."""
    steps = tuple(_step(entry) for entry in trace.entries if entry.kind in FORWARD_PHASES)
    crash = next((entry for entry in trace.entries if entry.error is not None), None)
    return Outcome(
        policy,
        steps,
        crash.error.text if crash is not None and crash.error is not None else None,
        crash.step if crash is not None else None,
    )


def _step(entry: Entry) -> StepOutcome:
    calls = entry.attention or []
    parities = [o.parity for o in entry.output or [] if o.parity is not None]
    worst = max(parities, key=lambda p: p.max_abs or 0.0, default=None)
    firsts = [p.first for p in parities if p.first is not None]
    return StepOutcome(
        step=entry.step,
        phase=entry.kind,
        seqs=tuple(row.seq or "" for row in entry.rows or []),
        queries=max((_queries(call) for call in calls), default=0),
        empty=max((_empty(call) for call in calls), default=0),
        wrong_window=max((_wrong(call) for call in calls), default=0),
        padding=max((_total(call, "padding_queries") for call in calls), default=0),
        taken_back=max((_taken_back(call) for call in calls), default=0),
        only_taken_back=all(position >= 0 for call in calls for _, _, position in call.padding or []),
        foreign=max((_total(call, "foreign") for call in calls), default=0),
        misfits=tuple(dict.fromkeys(_misfits(calls))),
        fates=tuple(dict.fromkeys(_fates(calls))),
        max_abs=worst.max_abs if worst is not None else None,
        first=min(firsts, default=None),
        tolerance=worst.tolerance if worst is not None else None,
        compared=sum(p.compared or 0 for p in parities),
        nan=sum(o.nan or 0 for o in entry.output or []),
        error=entry.error.text if entry.error is not None else None,
    )


def _queries(call: Attention) -> int:
    return sum(1 for row in call.visible or [] for count in row if count >= 0)


def _empty(call: Attention) -> int:
    return sum(1 for row in call.visible or [] for count in row if count == 0)


def _wrong(call: Attention) -> int:
    return _total(call, "wrong_queries")


def _taken_back(call: Attention) -> int:
    """Padding has no position; a token that was taken back keeps the one it had."""
    return len({(row, query) for row, query, position in call.padding or [] if position >= 0})


def _total(call: Attention, name: str) -> int:
    return (call.totals or {}).get(name, 0)


def _misfits(calls: list[Attention]) -> Iterator[tuple[str, int, int]]:
    for call in calls:
        if call.mask is not UNSET and isinstance(call.mask, tuple) and isinstance(call.k, int):
            m = call.mask[-1]
            if m != call.k:
                yield call.family or "?", m, call.k


def _fates(calls: list[Attention]) -> Iterator[tuple[str, str]]:
    for call in calls:
        if call.fate not in (None, "used") or call.fallback is not None:
            parts = [call.fate or "used", call.fallback or "", call.crop or ""]
            yield call.family or "?", ":".join(part for part in parts if part)
