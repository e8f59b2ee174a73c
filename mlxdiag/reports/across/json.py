"""For scripts: the `mlxdiag.across/1` document. Times are left out, so that equal comparisons are equal
files."""

from __future__ import annotations

from typing import Any

import msgspec

from mlxdiag.audit.across.cell import CODE, Across
from mlxdiag.reports import json


def render(across: Across) -> str:
    """The document, indented."""
    return json.pretty(document(across))


def document(across: Across) -> dict[str, Any]:
    """As plain data, with a summary whose counts sum up to the whole."""
    held: dict[str, Any] = msgspec.to_builtins(across)
    for timed in (held, *held["cells"], *held["rows"]):
        timed.pop("seconds", None)
    # Left out by the encoder where it is the default, and what scripts look for.
    held["differences"] = [{"code": CODE, **one} for one in held.get("differences", [])]
    summary = {
        "families": across.families(),
        "cells": across.tally(),
        "compared": sum(cell.compared for cell in across.cells),
        "queries": sum(cell.queries for cell in across.cells),
    }
    return {"schema": across.schema, **held, "summary": summary}
