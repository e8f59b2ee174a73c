"""SARIF 2.1.0, for code scanning: a result per fault, at the line of the library that causes it."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from mlxdiag import __version__
from mlxdiag.audit.cell import Fault
from mlxdiag.reports import json
from mlxdiag.reports.audit import shown as words
from mlxdiag.reports.audit.shown import Shown
from mlxdiag.reports.escape import printable
from mlxdiag.reports.sarif import SCHEMA, message, rule

MODELS = {"mlx-lm": "mlx_lm/models", "transformers": "transformers/models"}
STATES = {"accepted": "unchanged", "changed": "updated", "new": "new"}
"""Words of SARIF for where a result stands beside a baseline."""


def render(shown: Shown) -> str:
    """The log, indented."""
    faults = shown.audit.faults
    codes = list(dict.fromkeys(fault.code for fault in faults))
    rules = [rule(code, words.RULE_NAMES.get(code, code), "error") for code in codes]
    driver = {"name": "mlxdiag", "version": __version__, "rules": rules}
    run = {
        "tool": {"driver": driver},
        "columnKind": "unicodeCodePoints",
        "results": [_result(fault, codes.index(fault.code), shown) for fault in faults],
        "properties": {
            "libraries": shown.audit.libraries,
            "device": shown.audit.device,
            "coverage": words.coverage(shown.audit),
            "results": shown.audit.tally(),
            "baseline": list(shown.difference.lines()) if shown.difference is not None else [],
        },
    }
    return json.pretty({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]})


def _result(fault: Fault, index: int, shown: Shown) -> dict[str, Any]:
    state = words.state(fault, shown)
    text = f"{fault.cause} ({', '.join(fault.families)})"
    return {
        "ruleId": fault.code,
        "ruleIndex": index,
        "level": "note" if state == "accepted" else "error",
        **({"baselineState": STATES[state]} if state else {}),
        "message": {"text": message(text)},
        "locations": [_location(fault)],
        "occurrenceCount": max(1, len(fault.cells)),
        "partialFingerprints": {"mlxdiag/audit/v1": fault.id},
        "properties": {
            "cells": [f"{family}/{scenario}" for family, scenario in fault.cells],
            **dict(words.details(fault, shown)),
        },
    }


def _location(fault: Fault) -> dict[str, Any]:
    logical = [{"fullyQualifiedName": printable(fault.id), "kind": "module"}]
    file, _, line = fault.where.rpartition(":")
    known = bool(file) and line.isdigit()
    # Code scanning refuses a result without a file: where none is known it is the folder of the models.
    physical: dict[str, Any] = {"artifactLocation": {"uri": quote(file if known else MODELS[fault.library])}}
    if known:
        physical["region"] = {"startLine": int(line)}
    return {"physicalLocation": physical, "logicalLocations": logical}
