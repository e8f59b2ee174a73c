"""From a run to a cell: which oracle spoke, what is wrong where, and what could be judged at all."""

from __future__ import annotations

import re
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from mlxdiag.audit.cell import ORACLES, Cell
from mlxdiag.audit.faults import text
from mlxdiag.audit.judge.sites import PACKAGES, place
from mlxdiag.audit.judge.tame import kind
from mlxdiag.audit.judge.trial import RefusedError, Trial
from mlxdiag.errors import UnjudgedError
from mlxdiag.inspect import crash
from mlxdiag.inspect.findings import Finding, Report, codes
from mlxdiag.models.adapter import Geometry
from mlxdiag.traces.types import Attention, Entry, Row, Trace

ORACLE_OF = {"MD1": "geometry", "MD2": "geometry", "MD3": "visibility", "MD4": "parity", "MD5": "geometry"}
SHAPES, ENDED = CRASHES = ("MD901", "MD906")
"""A shape error, and any other."""
LISTED = 32
"""Wrong positions kept in a cell."""

REFUSALS = re.compile(
    r"\bNYI\b|not (?:yet )?(?:be )?(?:support|implement)|does not support|doesn't support|unsupported"
    r"|requires a trimmable|only supported|can_trim_prompt_cache is false|prefilled again",
    re.IGNORECASE,
)
"""What a library says that declines on purpose."""


DECLINED = re.compile(
    r"does not track past states|can only be cropped|Invalid layer type|is not compatible with `cache`"
    r"|chunking without a cache|requires a cache|does not support `crop`"
)
"""What transformers says where it declines, whatever it raises."""

TOO_SMALL = "needs to be divisible by the quantization group size"
"""Said of keys of 16 numbers, which is the tiny instance's doing."""


WRAPPERS = (
    "models/mlx/probe_calls.py",
    "models/mlx/probe_operations.py",
    "models/shield.py",
    "models/mlx/batching.py",
    "models/mlx/instance.py",
    "models/mlx/backend.py",
    "models/mlx/store.py",
    "models/torch/batching.py",
    "models/torch/cache_kinds.py",
    "models/torch/instance.py",
    "audit/judge/drafted.py",
    "audit/libraries/torch_drivers.py",
)
"""Modules that do nothing but call the library: what is raised there is the library's."""


class Run(msgspec.Struct, frozen=True):
    trial: Trial
    trace: Trace
    report: Report


def write(cell: Cell, schedule: Trace, run: Run) -> None:
    """Fill a cell from its run."""
    cell.judged = judged(run)
    error = run.trial.raised
    faults = [finding for finding in run.report.findings if damning(finding, run.trial.instance.geometry)]
    cell.codes = sorted(code for code in codes(faults) if code[:3] in ORACLE_OF or code in CRASHES)
    spoke = {ORACLE_OF[code[:3]] for code in cell.codes if code[:3] in ORACLE_OF}
    cell.oracles = [oracle for oracle in ORACLES if oracle in spoke]
    if error is not None:
        _ended(cell, error, faults, run)
    elif cell.codes:
        cell.result = "fail"
        cell.reason = sentence(headline(faults), run)
    elif not any(cell.judged.values()):
        cell.result, cell.reason = "skipped", "it ran, but no oracle could judge it"
    else:
        cell.result = "pass"
    if cell.wrong:
        cell.evidence = evidence(faults, run)
    if cell.result not in ("pass", "skipped"):
        cell.trace = text.of(schedule)


def damning(finding: Finding, geometry: Geometry) -> bool:
    """Errors, and whatever a query sees wrongly: with a window of 8, one key too many is no convention.

    Of layers whose calls cannot be related to a sequence's keys only the logits say something.
    """
    names = set((finding.family or "").split(", "))
    layers = [layer for layer in geometry.layers if not finding.family or layer.family in names]
    opaque = bool(layers) and all(layer.softmax == "opaque" for layer in layers)
    if opaque and ORACLE_OF.get(finding.code[:3]) in ("geometry", "visibility"):
        return False
    return finding.severity == "error" or (finding.severity == "warning" and finding.code.startswith("MD3"))


def judged(run: Run) -> dict[str, int]:
    """By oracle: attention calls, real queries whose keys were read, positions whose logits were compared."""
    calls = [call for entry in run.trace.entries for call in entry.attention or []]
    queries = sum(sum(n >= 0 for n in row) for call in calls for row in call.visible or [])
    outputs = [output for entry in run.trace.entries for output in entry.output or []]
    compared = sum(output.parity.compared or 0 for output in outputs if output.parity is not None)
    return {"geometry": run.report.summary.judged, "visibility": queries, "parity": compared}


def _ended(cell: Cell, error: Exception, faults: list[Finding], run: Run) -> None:
    """The run ended before its schedule: the library declines, or it breaks."""
    if ours(error):
        raise error
    site = crash_site(error)
    said = " ".join(str(error).split()) or type(error).__name__
    clean = refuses(error, said)
    if TOO_SMALL in said:
        cell.result, cell.codes = "skipped", []
        cell.reason = f"the keys of the tiny instance are too small for this: {said}"
        return
    if clean and cell.oracles:
        # What came before the refusal was wrong already; the refusal itself is no crash.
        cell.result, cell.codes = "fail", [code for code in cell.codes if code not in CRASHES]
        cell.reason = f"{sentence(headline(faults), run)}; then it is refused: {said}"
        return
    if clean:
        cell.result, cell.codes, cell.reason, cell.where = "unsupported", [], said, site
        return
    crashed(cell, error, (run.trial.stopped or "the run").split(":", 1)[0])


def refuses(error: Exception, said: str) -> bool:
    """Whether a run that ended with this exception was refused, by the library or before it was asked."""
    return isinstance(error, RefusedError | NotImplementedError | UnjudgedError) or declines(error, said)


def declines(error: Exception, said: str) -> bool:
    """Whether an exception with this text is a refusal."""
    refused = isinstance(error, ValueError) and REFUSALS.search(said) is not None
    return refused or DECLINED.search(said) is not None


def crashed(cell: Cell, error: Exception, when: str) -> None:
    """The library broke. Raises the error itself where it was not the library."""
    if ours(error):
        raise error
    said = " ".join(str(error).split())
    cell.result, cell.where = "crash", crash_site(error)
    cell.codes = sorted({*cell.codes, crash_code(said)})
    cell.reason = f"{when}: {kind(error)}: {said[:300]}"


def crash_code(said: str) -> str:
    """The rule that speaks of an exception with this text."""
    return CRASHES[crash.read(said) is None]


_OWN = Path(__file__).parents[2].resolve()
"""This package: its name alone may be that of the folder that the whole checkout lies in."""


def ours(error: Exception) -> bool:
    """Whether it was this program that failed, not the library under its hands."""
    if isinstance(error, UnjudgedError | RefusedError):
        return False
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        path = Path(frame.filename)
        if not set(PACKAGES).isdisjoint(path.parts):
            return False
        if path.resolve().is_relative_to(_OWN):
            return not path.as_posix().endswith(WRAPPERS)
    return True


def crash_site(error: Exception) -> str:
    """The innermost line of the library's models in a traceback, else of the library."""
    frames = traceback.extract_tb(error.__traceback__)
    inside = [frame for frame in frames if not set(PACKAGES).isdisjoint(Path(frame.filename).parts)]
    of_models = [frame for frame in inside if "models" in Path(frame.filename).parts]
    found = of_models or inside
    return place(found[-1].filename, found[-1].lineno or 0) if found else ""


def headline(faults: list[Finding]) -> Finding:
    """The strongest evidence speaks: visibility, then geometry, then parity; the earliest of its kind."""
    order = {"MD3": 0, "MD1": 1, "MD2": 1, "MD5": 1, "MD4": 2}
    return min(faults, key=lambda f: (order.get(f.code[:3], 3), f.step or 0))


def sentence(finding: Finding, run: Run) -> str:
    """What is wrong, with the step that shows it."""
    entry = _entry(run.trace, finding.step)
    phase = f" ({entry.kind})" if entry is not None else ""
    layers = f"{finding.family} layers: " if finding.family else ""
    because = f" ({finding.cause[0]})" if finding.cause else ""
    return f"step {finding.step}{phase}: {layers}{finding.message}{because}"


def _entry(trace: Trace, step: int | None) -> Entry | None:
    return next((entry for entry in trace.entries if entry.step == step), None)


def evidence(faults: list[Finding], run: Run) -> dict[str, Any]:
    """What `Cell.evidence` holds, as far as it was observed."""
    found: dict[str, Any] = {}
    if faults:
        head = headline(faults)
        found.update(step=head.step, seq=head.seq, layers=layers(head, run.trace))
    windows = {name: family.window for name, family in run.trial.plan.families.items()}
    wrong = sorted(
        {*wrong_queries(run.trace, windows), *(p for d in run.trial.differences for p in d.positions)}
    )
    if wrong:
        found.update(positions=wrong[:LISTED], first=wrong[0])
    parities = [o.parity for e in run.trace.entries for o in e.output or [] if o.parity is not None]
    if parities:
        worst = max(parities, key=lambda parity: parity.max_abs or 0.0)
        found.update(max_abs=worst.max_abs, tolerance=worst.tolerance)
    first = next((parity for parity in parities if parity.first is not None), None)
    if first is not None:
        found["margin"] = first.margin
    return {name: value for name, value in found.items() if value is not None}


def layers(finding: Finding, trace: Trace) -> list[int] | None:
    """Layers of the step that attend wrongly, else those of the call that the finding is about."""
    entry = _entry(trace, finding.step)
    calls = entry.attention or [] if entry is not None else []
    names = set((finding.family or "").split(", "))
    found = [call for call in calls if _wrong(call)] or [call for call in calls if call.family in names]
    return sorted({layer for call in found for layer in call.layers or []}) or None


def _wrong(call: Attention) -> bool:
    return any((call.totals or {}).values()) or any(count == 0 for row in call.visible or [] for count in row)


def wrong_queries(trace: Trace, windows: dict[str, int | None]) -> Iterator[int]:
    """Positions of queries that saw something else than they must; `windows` by layer family."""
    for entry in trace.entries:
        for call in entry.attention or []:
            for row, query in _marked(call, windows.get(call.family or "")):
                rows = entry.rows or []
                yield _position(rows[row], query) if row < len(rows) else query


def _marked(call: Attention, window: int | None) -> Iterator[tuple[int, int]]:
    for listed in (call.missing, call.future, call.padding, call.foreign):
        for triple in listed or []:
            yield int(triple[0]), int(triple[1])
    if (call.totals or {}).get("old") and window is not None:
        for row, counts in enumerate(call.visible or []):
            yield from ((row, query) for query, count in enumerate(counts) if count > window)


def _position(row: Row, query: int) -> int:
    return (row.offset or 0) + query - max(row.left_padding or 0, 0)
