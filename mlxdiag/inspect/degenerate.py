"""The verdict on bad answers, once the whole trace is read: did anything structural go wrong beside them?"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import structs

from mlxdiag.inspect.findings import Finding

FLOODS = ("MD601", "MD602", "MD603", "MD606")
CYCLES = ("MD604", "MD605")
STRUCTURAL = ("MD1", "MD2", "MD3", "MD4", "MD5")
NOTHING_STRUCTURAL = "degenerate output, no structural fault in this trace"
NOTHING_JUDGED = f"{NOTHING_STRUCTURAL}: none of its attention calls could be judged"
"""Many floods of pads or exclamation marks come from a kernel, a weight file, fp16 overflow or a chat
template; a verdict that blames the masks would send their readers astray."""


def settle(findings: Sequence[Finding], judged: int) -> list[Finding]:
    """Give each finding on degenerate output its cause, and fold a loop into the flood that it is made of.

    Args:
        findings: all of a trace, folded by entry, worst first.
        judged: attention calls that some rule had the evidence for.
    """
    floods = {finding.seq for finding in findings if finding.code in FLOODS}
    settled = []
    for finding in findings:
        if finding.code in CYCLES and finding.seq in floods:
            continue
        if finding.code in FLOODS or finding.code in CYCLES:
            finding = _explained(finding, findings, judged)
        settled.append(finding)
    return settled


def _explained(finding: Finding, findings: Sequence[Finding], judged: int) -> Finding:
    loops = [f for f in findings if f.code in CYCLES and f.seq == finding.seq and f is not finding]
    told = [f"{f.code} {f.name}: {f.message}" for f in loops if finding.code in FLOODS]
    faults = [f for f in findings if _structural(f) and _touches(f, finding)]
    if faults:
        told += [f"{f.code} {f.name}: {f.message}" for f in faults[:3]]
    else:
        told.append(NOTHING_STRUCTURAL if judged else NOTHING_JUDGED)
    return structs.replace(finding, cause=[*finding.cause, *told])


def _structural(finding: Finding) -> bool:
    return finding.severity == "error" and finding.code.startswith(STRUCTURAL)


def _touches(fault: Finding, output: Finding) -> bool:
    """The same sequence, where both are named, and not after the answer had gone bad."""
    if None not in (fault.seq, output.seq) and fault.seq != output.seq:
        return False
    return fault.step is None or output.step is None or fault.step <= output.step
