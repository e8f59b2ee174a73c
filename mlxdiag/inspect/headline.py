"""One fault, one headline: what a finding explains is folded into the finding it explains."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import structs

from mlxdiag.inspect.findings import SEVERITIES, Finding, codes

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
    _join_symptoms(findings, causes)
    folded = {j for found in causes.values() for j in found}
    return _across_families(
        [
            _headline(finding, [findings[j] for j in _chain(i, causes)])
            for i, finding in enumerate(findings)
            if i not in folded
        ]
    )


def _join_symptoms(findings: Sequence[Finding], causes: dict[int, list[int]]) -> None:
    """Two symptoms of one cause are one fault: the one seen later in the call counts as the other's effect.

    Shapes are seen first, then caches, attention, numbers and the end of the run, as the codes are numbered.
    """
    folded = {j for found in causes.values() for j in found}
    roots = sorted((i for i in causes if i not in folded), key=lambda i: findings[i].code)
    for at, earlier in enumerate(roots):
        for later in roots[at + 1 :]:
            shared = set(_chain(earlier, causes)) & set(_chain(later, causes))
            other = findings[earlier].code != findings[later].code
            if shared and other and _same_place(findings[earlier], findings[later]):
                causes[later].append(earlier)
                break


def _across_families(headlines: list[Finding]) -> list[Finding]:
    """One headline where the same fault, for the same causes, shows on several layer families at once."""
    groups: dict[tuple[object, ...], list[Finding]] = {}
    for finding in headlines:
        fired = frozenset(codes([finding])) if finding.family is not None else id(finding)
        key = (finding.code, finding.severity, finding.step, finding.seq, fired)
        groups.setdefault(key, []).append(finding)
    return [group[0] if len(group) == 1 else _joined(group) for group in groups.values()]


def _joined(group: list[Finding]) -> Finding:
    """Families by name, each with its own sentence and its own numbers; causes once where they are equal."""
    first = group[0]
    families = [finding.family or "" for finding in group]
    return structs.replace(
        first,
        family=", ".join(dict.fromkeys(families)),
        message="; ".join(dict.fromkeys(f"{finding.family}: {finding.message}" for finding in group)),
        cause=list(dict.fromkeys(cause for finding in group for cause in finding.cause)),
        evidence={family: finding.evidence for family, finding in zip(families, group, strict=True)},
        count=max(finding.count for finding in group),
    )


def _causes(index: int, findings: Sequence[Finding], explains: Explains) -> list[int]:
    symptom = findings[index]
    return [
        i
        for i, other in enumerate(findings)
        if i != index
        and symptom.code in explains.get(other.code, ())
        and _same_place(symptom, other)
        and _by_as_much(other.evidence, symptom.evidence)
    ]


def _by_as_much(cause: Mapping[str, object], symptom: Mapping[str, object]) -> bool:
    """Whether the lengths agree, where a cause is about the number of keys: a mask that fits the keys that
    were due misses those that came, and keys that went too early are those that are missing.
    """
    due, came = cause.get("expected"), cause.get("k")
    if "mask_keys" in symptom and due is not None and came is not None:
        return symptom["mask_keys"] == due
    lengths = (cause.get("oldest"), cause.get("needed"), symptom.get("expected"), symptom.get("k"))
    known = [length for length in lengths if isinstance(length, int)]
    if len(known) == len(lengths):
        oldest, needed, due, came = known
        return oldest - needed == due - came
    return True


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
        where = f" ({cause.family})" if cause.family and cause.family != finding.family else ""
        told += [f"{cause.code} {cause.name}{where}: {cause.message}", *cause.cause]
    evidence = dict(finding.evidence)
    for cause in causes:
        for key, value in cause.evidence.items():
            evidence.setdefault(key, value)
    worst = max((finding, *causes), key=lambda one: SEVERITIES.index(one.severity))
    return structs.replace(
        finding,
        severity=worst.severity,
        cause=list(dict.fromkeys([*told, *finding.cause])),
        evidence=evidence,
    )
