"""The parts of a bundle, and why one is missing."""

from __future__ import annotations

import msgspec

WHAT: dict[str, str] = {
    "summary.md": "the facts, for a person to write an issue from",
    "trace.yaml": "what the scheduler and the attention layers did, step by step",
    "findings.json": "which call broke which rule, and why",
    "tokens.jsonl": "what was emitted, as classes and labels",
    "model.json": "what of the model decides masks and caches",
    "environment.json": "systems and versions",
    "controls.json": "what was tried around the fault, with results",
    "repro/repro.py": "fails while the fault is there; needs only the serving library",
    "repro/control.py": "the nearest schedule that passes",
    "repro/trace.yaml": "the smallest schedule that still fails",
    "logs/": "cleaned logs",
    "redaction.json": "what was taken out, by rule and count",
    "bundle.json": "what this is, and which parts are missing",
    "MANIFEST": "checksums of all of it",
}
"""In the order in which a reader wants them."""


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """One of `WHAT`."""

    name: str
    there: bool
    what: str = ""
    reason: str = ""
    """Why it is missing, and what would bring it."""


def listed(names: frozenset[str], missing: dict[str, str]) -> tuple[Part, ...]:
    """Every part: there, or missing with a reason."""
    found = []
    for name, what in WHAT.items():
        there = any(one.startswith(name) for one in names) if name.endswith("/") else name in names
        if there or name in missing:
            found.append(Part(name=name, there=there, what=what, reason=missing.get(name, "")))
    return tuple(found)
