"""`repro/` and `controls.json`: what needs the serving library, or the reasons why it is not there."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from mlxdiag.bundle.redact.trace import text
from mlxdiag.bundle.reproduce import serving
from mlxdiag.bundle.reproduce.controls import NOT_TRIED, Control
from mlxdiag.bundle.reproduce.serving import Library
from mlxdiag.errors import MlxdiagError
from mlxdiag.inspect.findings import Finding, Report, codes
from mlxdiag.traces.types import FORWARD_PHASES, Trace

if TYPE_CHECKING:
    from mlxdiag.replay.shrink import Shrunk

REPRO, CONTROL, SMALL = "repro/repro.py", "repro/control.py", "repro/trace.yaml"
MOST_FAULTS = 3
"""Findings tried, one after the other, until a script shows one of them."""
WITHOUT_A_RUN = ("MD6", "MD902", "MD903", "MD905")
"""Codes that a run on random weights cannot show: they are about words, or about how a program ended."""
LAST = ("MD404",)
"""Shown by a run, but only to whoever samples: tried after the others."""
LONGEST_OUTPUT = 2_000
NO_FAULT = "no rule found an error that a run could show"

Say = Callable[[str], None]


class Reproduction(msgspec.Struct, frozen=True, kw_only=True):
    """What came of it."""

    members: dict[str, bytes] = {}
    missing: dict[str, str] = {}
    controls: tuple[Control, ...] = ()
    sentences: tuple[str, ...] = ()
    headline: Finding | None = None
    """The finding that is shown."""
    nearest: Trace | None = None
    """The schedule of the control."""
    short: tuple[str, ...] = ()
    """Where the fault lies and where its edge is, each in a sentence."""


def make(trace: Trace, report: Report, wanted: bool, say: Say, *, dtype: str | None = None) -> Reproduction:
    """Shrink, write the scripts and try what lies around the fault, as far as the library here allows.

    `dtype`: what the recorded model computes in, where that is known.
    """
    library = serving.of(trace.header.environment)
    reason = _unable(wanted, library)
    if reason is not None:
        return _nothing(reason)
    from mlxdiag.bundle.reproduce.edge import in_short
    from mlxdiag.bundle.reproduce.smallest import smallest
    from mlxdiag.bundle.reproduce.trying import Trial

    best: tuple[Finding, Shrunk] | None = None
    scripts = Reproduction(
        missing=dict.fromkeys((REPRO, CONTROL, SMALL), NO_FAULT),
        sentences=(f"No script is in this bundle: {NO_FAULT}.",),
    )
    for fault in _faults(report)[:MOST_FAULTS]:
        say(f"shrinking to the smallest schedule with {fault.code} ...")
        small = smallest(trace, fault)
        if isinstance(small, str):
            scripts = _nothing(small)
            continue
        best = best or (fault, small)
        say(f"writing and running a script for {fault.code} ...")
        scripts = _scripts(fault, small, library)
        if REPRO in scripts.members:
            best = (fault, small)
            break
    target, schedule = (codes([best[0]]), best[1].trace) if best is not None else (set(), trace)
    seq = best[0].seq if best is not None else None
    controls = tuple(Trial(schedule, seq, frozenset(target), say, whole=trace, dtype=dtype).all())
    short = tuple(in_short(*best, scripts.nearest, controls)) if best is not None else ()
    headline = best[0] if best is not None else None
    return msgspec.structs.replace(scripts, controls=controls, short=short, headline=headline)


def _unable(wanted: bool, library: Library) -> str | None:
    if not wanted:
        return "--no-replay was given"
    for name in library.modules:
        if find_spec(name) is None:
            return (
                f"the trace is of {library.name}, and {name} is not installed here, so nothing could be run; "
                f"pip install {library.packages}, and bundle again"
            )
    return serving.unable(library)


def _nothing(reason: str) -> Reproduction:
    tried = (
        ("single-pass", "a single pass"),
        ("chunk", "other chunk sizes"),
        ("concurrency-1", "concurrency 1"),
        ("misfit", "other misfit policies"),
        ("float32", "float32"),
    )
    return Reproduction(
        missing=dict.fromkeys((REPRO, CONTROL, SMALL), reason),
        controls=tuple(
            Control(name=name, what=what, result=NOT_TRIED, reason=reason) for name, what in tried
        ),
        sentences=(f"No script is in this bundle: {reason}.",),
    )


def _faults(report: Report) -> list[Finding]:
    """Errors that a run can show, in order of their steps, those about sampling last; else the warnings.

    A warning says that shapes do not fit although attention may be right: a run tells which of the two it is.
    """
    shown = [f for f in report.findings if not f.code.startswith(WITHOUT_A_RUN)]
    errors = [f for f in shown if f.severity == "error"] or [f for f in shown if f.severity == "warning"]
    return sorted(errors, key=lambda f: (f.code in LAST, f.step if f.step is not None else 1 << 60))


def _scripts(fault: Finding, small: Shrunk, library: Library) -> Reproduction:
    """Both scripts, each run once: what is in the bundle was seen to do what it says."""
    members = {SMALL: text(small.trace)}
    missing: dict[str, str] = {}
    sentences: list[str] = []
    shown = _shown(fault, small.trace)
    script = _script(small.trace, fault, shown, passes=False)
    if isinstance(script, str):
        missing[REPRO] = script
    else:
        members[REPRO] = script.source
        does = (
            "fails while the fault is there (exit code 1), and passes once it is fixed (0). It needs only "
            f"{library.needs}: tiny random weights, synthetic tokens"
        )
        sentences += _told("repro.py", does, script.output)
    nearest: Trace | None = None
    controls = _controls(fault, small)
    for trace in controls:
        other = _script(trace, fault, shown, passes=True)
        if not isinstance(other, str):
            members[CONTROL], nearest = other.source, trace
            missing.pop(CONTROL, None)
            does = "the nearest schedule that passes (exit code 0)"
            sentences += _told("control.py", does, other.output)
            break
        missing[CONTROL] = other
    if not controls:
        missing[CONTROL] = "no neighbour without the fault was found"
    if REPRO in missing:
        sentences.insert(0, f"No repro.py is in this bundle: {missing[REPRO]}.")
    return Reproduction(members=members, missing=missing, sentences=tuple(sentences), nearest=nearest)


def _controls(fault: Finding, small: Shrunk) -> list[Trace]:
    """The neighbour that the search found and the single pass; first the one with the steps of the fault."""
    found = [one for one in (small.control, _single(small.trace, fault)) if one is not None]
    whole = _steps(small.trace)
    return sorted(found, key=lambda one: abs(_steps(one) - whole))


def _steps(trace: Trace) -> int:
    return sum(entry.kind in FORWARD_PHASES for entry in trace.entries)


class Script(msgspec.Struct, frozen=True):
    """A script and what it printed here."""

    source: bytes
    output: str


def _shown(fault: Finding, trace: Trace) -> tuple[str, ...]:
    """What a run of the smallest schedule finds: it decides what the scripts look at."""
    from mlxdiag.bundle.reproduce.trying import run

    seen = run(trace)
    return tuple(sorted(codes([fault]) if isinstance(seen, str) else seen.codes))


def _script(trace: Trace, fault: Finding, shown: tuple[str, ...], *, passes: bool) -> Script | str:
    """The script, where running it shows what it is meant to show; else why it is left out."""
    from mlxdiag.audit import repro

    try:
        source = repro.of_trace(
            trace,
            source="trace.yaml",
            codes=shown,
            cause=fault.message,
            passes=passes,
        )
    except MlxdiagError as error:
        return str(error)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "script.py"
        path.write_text(source)
        ran = repro.confirm(path)
    broke = "Traceback (most recent call last)" in ran.output
    if broke or ran.code != (0 if passes else 1):
        ended = (ran.output.strip().splitlines() or ["nothing"])[-1]
        meant = "pass" if passes else "fail"
        return f"a script was written, but it did not {meant} here (exit code {ran.code}: {ended[:200]})"
    return Script(source.encode(), ran.output.strip()[:LONGEST_OUTPUT])


def _single(trace: Trace, fault: Finding) -> Trace | None:
    """The same tokens in one pass with the library's own masks: passes wherever the library is right."""
    from mlxdiag.bundle.reproduce import variants

    prompt = variants.prompt_of(trace, fault.seq)
    return variants.chunked(trace, prompt, prompt.tokens) if prompt is not None else None


def _told(name: str, does: str, output: str) -> Iterator[str]:
    yield f"`python repro/{name}`: {does}."
    yield "Run here, it printed:"
    yield ""
    yield "```text"
    yield from output.splitlines()
    yield "```"
    yield ""
