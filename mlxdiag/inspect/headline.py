"""One fault, one headline: what a finding explains is folded into the finding it explains."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import structs

from mlxdiag.inspect.findings import SEVERITIES, Finding

Explains = Mapping[str, frozenset[str]]
"""Code of a cause -> codes of the symptoms it explains (from `Rule.absorbs`)."""


def fold(findings: Sequence[Finding], explains: Explains) -> list[Finding]:
    """The headlines among findings of one entry, each with its causes, nearest first.

    A finding that explains another at the same call is no headline; it goes into the other's `cause` as
    `CODE name: sentence`. A headline is as severe as its worst cause that is not a mere note.
    """
    if len(findings) < 2:
        return list(findings)
    causes = {i: _causes(i, findings, explains) for i in range(len(findings))}
    folded = {j for found in causes.values() for j in found}
    return [
        _headline(finding, [findings[j] for j in _chain(i, causes)])
        for i, finding in enumerate(findings)
        if i not in folded
    ]


def _causes(index: int, findings: Sequence[Finding], explains: Explains) -> list[int]:
    symptom = findings[index]
    return [
        i
        for i, other in enumerate(findings)
        if i != index and symptom.code in explains.get(other.code, ()) and _same_place(symptom, other)
    ]


def _same_place(one: Finding, other: Finding) -> bool:
    """Same family and sequence, where both say; a crash names neither."""
    return _agree(one.family, other.family) and _agree(one.seq, other.seq)


def _agree(one: str | None, other: str | None) -> bool:
    return one is None or other is None or one == other


def _chain(index: int, causes: Mapping[int, list[int]]) -> list[int]:
    """Causes, then the causes of causes, each once."""
    seen: list[int] = []
    queue = list(causes[index])
    while queue:
        nearest = queue.pop(0)
        if nearest not in seen and nearest != index:
            seen.append(nearest)
            queue.extend(causes[nearest])
    return seen


def _headline(finding: Finding, causes: Sequence[Finding]) -> Finding:
    if not causes:
        return finding
    told = []
    for cause in causes:
        told += [f"{cause.code} {cause.name}: {cause.message}", *cause.cause]
    evidence = dict(finding.evidence)
    for cause in causes:
        for key, value in cause.evidence.items():
            evidence.setdefault(key, value)
    worst = max((finding, *causes), key=lambda one: SEVERITIES.index(one.severity))
    return structs.replace(finding, severity=worst.severity, cause=[*told, *finding.cause], evidence=evidence)
