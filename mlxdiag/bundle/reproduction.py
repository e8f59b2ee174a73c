"""`repro/` and `controls.json`: what needs the serving library, or the reasons why it is not there."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from mlxdiag.bundle.controls import Control
from mlxdiag.inspect.findings import Report
from mlxdiag.traces.types import Trace

SCRIPTS = ("repro/repro.py", "repro/control.py", "repro/trace.yaml")


class Reproduction(msgspec.Struct, frozen=True, kw_only=True):
    """What came of it."""

    members: dict[str, bytes] = {}
    missing: dict[str, str] = {}
    controls: tuple[Control, ...] = ()
    sentences: tuple[str, ...] = ()


def make(trace: Trace, report: Report, wanted: bool, progress: Callable[[str], None]) -> Reproduction:
    """Shrink, write the scripts and try what lies around the fault, as far as the installed library allows."""
    reason = _unable(report, wanted)
    if reason is not None:
        return Reproduction(
            missing=dict.fromkeys((*SCRIPTS, "controls.json"), reason),
            sentences=(f"No script is in this bundle: {reason}.",),
        )
    return Reproduction()


def _unable(report: Report, wanted: bool) -> str | None:
    if not wanted:
        return "--no-replay was given"
    return "not yet"
