"""What says whether a smaller trace still shows the fault: the rules alone, or a run on real model code."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

import msgspec

from mlxdiag.errors import UnjudgedError, UnreadableError
from mlxdiag.inspect.findings import Finding, Report, codes
from mlxdiag.inspect.inspector import inspect_trace
from mlxdiag.traces.encode import entry_line, header_text
from mlxdiag.traces.types import Trace

Seen = frozenset[str] | None
"""Signatures of the faults that a trace shows, empty where it shows none; None: it could not be judged."""
Oracle = Callable[[Trace], Seen]


class Spent(Exception):
    """The budget of oracle calls is used up."""


def signature(finding: Finding) -> str:
    """The rule and the rules it is caused by: two findings of one signature are one fault."""
    causes = sorted(codes([finding]) - {finding.code})
    return f"{finding.code} because of {', '.join(causes)}" if causes else finding.code


def signatures(report: Report, code: str | None = None) -> frozenset[str]:
    """Of every error, and of findings with `code` whatever their severity."""
    return frozenset(signature(f) for f in report.findings if f.severity == "error" or f.code == code)


def inspecting(code: str | None = None) -> Oracle:
    """The rules over the trace as it is written: no model, a few milliseconds."""
    return lambda trace: signatures(inspect_trace(trace), code)


class Replaying:
    """The trace's schedule on real model code, a tiny instance, under the trace's own misfit policy."""

    def __init__(
        self, source: str, code: str | None = None, policy: str | None = None, seed: int = 0
    ) -> None:
        self.source = source
        self.code = code
        self.policy = policy
        self.seed = seed

    def __call__(self, trace: Trace) -> Seen:
        from mlxdiag.replay import experiment, memory

        try:
            prepared = experiment.prepare(trace, source=self.source)
            if prepared.broken is not None:
                return None
            memory.require(prepared)
            instance = experiment.instance_for(prepared, seed=self.seed)
            policy = self.policy or prepared.plan.misfit
            ran = experiment.run_policies(prepared, instance, (policy,), seed=self.seed)[0]
        except (UnreadableError, UnjudgedError):
            return None
        return signatures(ran.report, self.code)


class _Line(msgspec.Struct):
    """A line of the state file."""

    trace: str
    seen: list[str] | None


class Counted:
    """An oracle that answers every trace once, counts, and may go on where an earlier search stopped.

    The search is deterministic, so that a resumed one asks the same questions; those answered in the `state`
    file are not run again, and count all the same.
    """

    def __init__(self, oracle: Oracle, budget: int, state: Path | None = None) -> None:
        self.oracle = oracle
        self.budget = budget
        self.calls = 0
        """Those included that the state file answered."""
        self._state = state
        self._known: dict[str, Seen] = {}
        self._asked: set[str] = set()
        for line in state.read_bytes().splitlines() if state is not None and state.exists() else []:
            try:
                found = msgspec.json.decode(line, type=_Line)
            except msgspec.DecodeError:
                continue  # cut off when the earlier search was stopped
            self._known[found.trace] = None if found.seen is None else frozenset(found.seen)

    def __call__(self, trace: Trace) -> Seen:
        """Raises Spent where the budget does not allow another call."""
        key = fingerprint(trace)
        if key in self._asked:
            return self._known[key]
        if self.calls >= self.budget:
            raise Spent
        self.calls += 1
        self._asked.add(key)
        if key not in self._known:
            self._known[key] = self.oracle(trace)
            self._remember(key)
        return self._known[key]

    def _remember(self, key: str) -> None:
        if self._state is None:
            return
        seen = self._known[key]
        with self._state.open("ab") as file:
            file.write(msgspec.json.encode(_Line(key, None if seen is None else sorted(seen))) + b"\n")


def fingerprint(trace: Trace) -> str:
    """Names a trace by what it holds."""
    digest = hashlib.sha256(header_text(trace.header))
    for entry in trace.entries:
        digest.update(entry_line(entry))
    return digest.hexdigest()
