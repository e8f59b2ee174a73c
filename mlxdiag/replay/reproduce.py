"""Whether a replay shows the faults that the trace shows: of those it does not, it has judged nothing."""

from __future__ import annotations

from collections.abc import Iterator

from mlxdiag.inspect.findings import Finding, Report, codes

MASK_CODES = frozenset({"MD101", "MD102", "MD103", "MD105", "MD106", "MD107", "MD108", "MD501", "MD901"})
"""Faults that another misfit policy is meant to change."""

UNTESTED = ("MD104", "MD4", "MD6", "MD9")
"""Not asked of a replay: consequences, tokens that a random model does not emit, and how a program ended."""


def missing(recorded: Report, replayed: Report, *, same_policy: bool, until: int | None) -> Iterator[Finding]:
    """Recorded headlines, from warning up, none of whose codes the replay shows.

    `same_policy`: the replay treated misfits as the recording did; if not, faults of masks are left out.
    `until`: the step at which the replay crashed; what was recorded later was not reached.
    """
    shown = codes(replayed.findings)
    for finding in recorded.findings:
        asked = {code for code in codes([finding]) if not code.startswith(UNTESTED)}
        if not same_policy:
            asked -= MASK_CODES
        if finding.severity == "info" or not asked or asked & shown:
            continue
        if until is not None and (finding.step is None or finding.step > until):
            continue
        yield finding


def sentence(finding: Finding) -> str:
    """What was recorded, for the section that says it was not reproduced."""
    step = f"step {finding.step}" if finding.step is not None else None
    where = ", ".join(part for part in (step, finding.seq, finding.family) if part)
    return f"{finding.code} {finding.name}" + (f" ({where})" if where else "") + f": {finding.message}"
