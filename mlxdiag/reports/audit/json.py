"""For scripts and for `mlxdiag merge`: the `mlxdiag.audit/1` document.

Times are left out, so that equal audits are equal files.
"""

from __future__ import annotations

from typing import Any

import msgspec

from mlxdiag.reports import json
from mlxdiag.reports.audit import shown as words
from mlxdiag.reports.audit.shown import Shown


def render(shown: Shown) -> str:
    """The document, indented."""
    return json.pretty(document(shown))


def document(shown: Shown) -> dict[str, Any]:
    """As plain data: the audit, with a summary and what was compared beside it."""
    held: dict[str, Any] = msgspec.to_builtins(shown.audit)
    for timed in (held, *held["cells"]):
        timed.pop("seconds", None)
    # Left out by the encoder where it is the default, and the first thing that a reader looks for.
    whole = {"schema": shown.audit.schema, **held}
    skipped = words.skipped_families(shown.audit)
    whole["summary"] = {
        "families": shown.audit.families,
        "reached": len(words.families(shown.audit)) - len(skipped),
        "skipped": skipped,
        "results": shown.audit.tally(),
        "hidden_faults": shown.hidden,
    }
    if shown.difference is not None:
        whole["baseline"] = msgspec.to_builtins(shown.difference)
    if shown.comparison is not None:
        whole["against"] = msgspec.to_builtins(shown.comparison)
    return whole
