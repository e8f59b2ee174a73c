"""What a rule says: one frozen record per fault, and the count of what no rule could judge."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import msgspec

SCHEMA = "mlxdiag.findings/1"

SEVERITIES = ("info", "warning", "error")
_CODE = re.compile(r"MD\d{3}\b")
EVIDENCE_KINDS = ("geometry", "visibility", "parity", "tokens", "run")


class Finding(msgspec.Struct, frozen=True, omit_defaults=False, kw_only=True):
    code: str
    name: str
    severity: str
    """error: attention is wrong or the call must crash; warning: likely wrong, or right only thanks to a
    fallback; info: legal, worth knowing, never fails a run."""
    message: str
    """One sentence with the numbers in it."""
    rests_on: str = "geometry"
    """Which of EVIDENCE_KINDS the verdict rests on."""
    step: int | None = None
    seq: str | None = None
    family: str | None = None
    evidence: dict[str, Any] = {}
    cause: list[str] = []
    """Nearest cause first: `CODE name: sentence` for a finding folded into this one, else a sentence."""
    count: int = 1
    """How many calls showed the same fault; `step` is the first of them."""
    hint: str = ""
    """The next command to run."""


def codes(findings: Iterable[Finding]) -> set[str]:
    """Every code that fired: of the headlines, and of the causes folded into them."""
    fired: set[str] = set()
    for finding in findings:
        fired.add(finding.code)
        fired.update(cause.split(" ", 1)[0] for cause in finding.cause if _CODE.match(cause))
    return fired


class Summary(msgspec.Struct, kw_only=True):
    steps: int = 0
    """Forwards and cache events."""
    calls: int = 0
    """Attention calls read (layers that share one entry count once)."""
    judged: int = 0
    not_observed: int = 0
    """Calls that lack what every rule needs. Never the same as clean."""
    other: int = 0
    """Entries without an attention call that held something else to judge: emitted tokens, outputs, errors,
    the counts of cache events."""
    caveat: str = ""
    """Why an empty list of findings is not clean; shown in its place."""
    hidden: int = 0
    """Headlines that `--select` or `--ignore` kept back."""
    errors: int = 0
    warnings: int = 0
    infos: int = 0
    truncated: bool = False
    notes: list[str] = []


class Section(msgspec.Struct, frozen=True, kw_only=True):
    """What a report says beside its findings: a comparison of policies, parity, a plan."""

    name: str
    """Key for scripts, as `policies`; stable."""
    title: str
    lead: bool = False
    """Shown before the findings."""
    lines: list[str] = []
    """Sentences, shown before the table."""
    header: list[str] = []
    rows: list[list[str | int | float | bool | None]] = []
    """Cells under `header`; null is shown as `-` and means not observed."""
    data: dict[str, Any] = {}
    """For machines only: shown by the JSON format, and by no other."""


class Report(msgspec.Struct, kw_only=True):
    """The `mlxdiag.findings/1` document."""

    schema: str = SCHEMA
    source: str | None = None
    findings: list[Finding] = []
    summary: Summary = msgspec.field(default_factory=Summary)
    sections: list[Section] = []
