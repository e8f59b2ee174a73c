"""The pages that are opened: every shipped faulty trace, a replayed one, an audit, a long run."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

from mlxdiag.audit.cell import Audit, Cell
from mlxdiag.audit.schedules.scenarios import SCENARIOS
from mlxdiag.inspect.inspector import inspect_trace
from mlxdiag.reports.html import audit_page, trace_page
from mlxdiag.traces.reader import parse, read
from tests.reports.audit.examples import faulty

TRACES = Path(__file__).parents[2] / "traces"
FAULTY = sorted(path.stem for path in TRACES.glob("*.yaml") if not path.stem.endswith("healthy"))


@cache
def shipped(name: str) -> str:
    trace = read(TRACES / f"{name}.yaml")
    report = inspect_trace(trace)
    report.source = f"traces/{name}.yaml"
    return trace_page.render(trace.header, trace.entries, report)


def of_text(text: str) -> str:
    trace = parse(text)
    return trace_page.render(trace.header, trace.entries, inspect_trace(trace))


@cache
def audit() -> str:
    return audit_page.render(faulty(), "audit.json")


@cache
def wide_audit() -> str:
    """As many columns as there are scenarios, and the widest letters in each."""
    cells = [
        Cell(
            library="mlx-lm",
            family="recurrent_gemma",
            scenario=scenario.name,
            result="fail",
            oracles=["geometry", "visibility", "parity"],
        )
        for scenario in SCENARIOS
    ]
    return audit_page.render(Audit(libraries={}, device="cpu", families=1, cells=cells), "audit.json")


@cache
def observed() -> str:
    """Masks that were read and logits that were compared: what a replay writes."""
    seen = {
        "first": [[-1, -1, 2, 2, 2]],
        "last": [[-1, -1, 2, 3, 4]],
        "visible": [[0, 0, 1, 2, 5]],
        "missing": [[0, 0, 0], [0, 1, 0], [0, 1, 1], [0, 2, 0], [0, 2, 1]],
        "padding": [[0, 4, -1]],
        "foreign": [[0, 4, 3]],
        "totals": {"missing": 7, "padding": 1, "foreign": 1, "wrong_queries": 5},
    }
    parity = {"reference": "single-pass", "max_abs": 2.5, "first": 0, "tolerance": 0.001, "compared": 5}
    step = {
        "step": 1,
        "rows": [{"seq": "a", "offset": 0, "tokens": 5}],
        "attention": [{"family": "sliding", "offset": 0, "q": 5, "k": 5, "mask": [5, 3], **seen}],
        "output": [{"parity": parity}],
    }
    return of_text(
        "model: {layers: {sliding: {attention: sliding, window: 3}}}\nsteps:\n- " + json.dumps(step) + "\n"
    )


@cache
def long(steps: int = 100_000) -> str:
    """Requests one after another, each a prefill and its decode steps; one short mask far in."""
    lines = ["model: {layers: {full: {attention: full}}}\nsteps:\n"]
    for number in range(1, steps + 1):
        at = number % 500
        row = {"seq": f"req-{number // 500}", "offset": at and 63 + at, "tokens": 1 if at else 64}
        q, k = row["tokens"], row["offset"] + row["tokens"]
        wide = k - 9 if number == 73_211 else k
        call = {"family": "full", "offset": row["offset"], "q": q, "k": k, "mask": [q, wide]}
        lines.append("- " + json.dumps({"step": number, "rows": [row], "attention": [call]}) + "\n")
    return of_text("".join(lines))
