"""The faults found so far, each once, with how often it came back. Bounded, whatever the file's length."""

from __future__ import annotations

import shlex
from collections.abc import Iterable

from msgspec import structs

from mlxdiag.inspect.findings import SEVERITIES, Finding, codes

PER_CODE = 200
"""Distinct faults of one code that are told apart; later ones only count."""

Key = tuple[object, ...]


class Ledger:
    """Merges repeats: same code, severity and family, and no cause that the first one did not have.

    Sequences are told apart only by rules that are about sequences; one wrong mask hits every sequence and is
    still one fault. A poisoned cache goes on giving wrong numbers without a cause of its own at each step.
    """

    def __init__(self, source: str | None) -> None:
        self.source = source
        named = source if source and not source.startswith("<") else "trace.yaml"
        self._path = shlex.quote(named)
        self._first: dict[Key, Finding] = {}
        self._again: dict[Key, tuple[int, int | None]] = {}
        self._places: dict[Key, list[tuple[frozenset[str], Key]]] = {}
        self._distinct: dict[str, int] = {}
        self._beyond: dict[str, int] = {}

    def add_all(self, findings: Iterable[Finding]) -> list[Finding]:
        """Take findings in; those not seen before, with their hints filled in, come back."""
        return [new for new in map(self._add, findings) if new is not None]

    def _add(self, finding: Finding) -> Finding | None:
        place, causes = _place(finding), frozenset(codes([finding]) - {finding.code})
        known = next((key for found, key in self._places.get(place, ()) if causes <= found), None)
        if known is not None:
            key = known
            count, _ = self._again[key]
            self._again[key] = (count + finding.count, finding.step)
            return None
        if self._distinct.get(finding.code, 0) >= PER_CODE:
            self._beyond[finding.code] = self._beyond.get(finding.code, 0) + 1
            return None
        self._distinct[finding.code] = self._distinct.get(finding.code, 0) + 1
        key = (*place, causes)
        self._places.setdefault(place, []).append((causes, key))
        hint = finding.hint.replace("{code}", finding.code).replace("{trace}", self._path)
        told = structs.replace(finding, hint=hint)
        self._first[key] = told
        self._again[key] = (finding.count, finding.step)
        return told

    def findings(self) -> list[Finding]:
        """Worst first, then in the order of the trace."""
        merged = []
        for key, finding in self._first.items():
            count, last = self._again[key]
            if count != finding.count:
                evidence = {**finding.evidence, "last_step": last}
                finding = structs.replace(finding, count=count, evidence=evidence)
            merged.append(finding)
        return sorted(merged, key=_order)

    def notes(self) -> list[str]:
        return [
            f"{count} further findings of {code} on other sequences are not listed"
            for code, count in sorted(self._beyond.items())
        ]


def _place(finding: Finding) -> Key:
    seq = None if finding.family is not None else finding.seq
    return (finding.code, finding.severity, finding.family, seq)


def _order(finding: Finding) -> tuple[int, int, str, str, str]:
    rank = -SEVERITIES.index(finding.severity)
    step = finding.step if finding.step is not None else 1 << 62
    return (rank, step, finding.code, finding.family or "", finding.seq or "")
