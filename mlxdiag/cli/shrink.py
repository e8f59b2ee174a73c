"""`mlxdiag shrink`: the smallest trace with the same fault."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from mlxdiag.cli import options
from mlxdiag.cli.deliver import write_result
from mlxdiag.cli.inspect import refuse_overwriting_a_source
from mlxdiag.cli.settings import one_of, refuse_overwriting
from mlxdiag.cli.streams import complain
from mlxdiag.errors import CLEAN, UsageError
from mlxdiag.models import backends
from mlxdiag.replay.shrink import REPLAYS, Shrunk, shrink
from mlxdiag.replay.shrink.oracles import Oracle, signature
from mlxdiag.replay.shrink.sketch import Size
from mlxdiag.reports.escape import log_line, printable
from mlxdiag.reports.json import pretty

if TYPE_CHECKING:
    from mlxdiag.inspect.findings import Finding
    from mlxdiag.traces.types import Trace

FORMATS = ("text", "json")
SCHEMA = "mlxdiag.shrink/1"
INSPECTIONS = 20_000
"""Of traces that the rules alone judge: the limit of a search gone astray, which nobody should meet."""
SEEN_ONLY_BY_A_RUN = ("visibility", "parity")


def main(
    trace: Annotated[str, typer.Argument(metavar="TRACE", help="The trace to make smaller.")],
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="FILE", help="Write the smallest trace here; else show it."),
    ] = None,
    code: Annotated[
        str | None,
        typer.Option("--code", metavar="CODE", help="The finding to keep; default: the trace's first error."),
    ] = None,
    replay: Annotated[
        bool,
        typer.Option("--replay", help="Ask real model code after each cut, not the rules alone."),
    ] = False,
    misfit: Annotated[
        str | None,
        typer.Option("--misfit", metavar="POLICY", help="Of the replay; else the trace's own."),
    ] = None,
    control: Annotated[
        Path | None,
        typer.Option("--control", metavar="FILE", help="Write the largest neighbour without the fault here."),
    ] = None,
    resume: Annotated[
        Path | None,
        typer.Option("--resume", metavar="FILE", help="Keep answers here, and go on from those in it."),
    ] = None,
    budget: Annotated[
        int | None, typer.Option("--budget", min=2, help="Replays to spend; default: 60.", show_default=False)
    ] = None,
    seed: Annotated[
        int, typer.Option("--seed", min=0, max=2**32 - 1, help="Of the replay's weights and tokens.")
    ] = 0,
    format: Annotated[str, typer.Option("--format", metavar="FORMAT", help="text or json.")] = "text",
    force: options.Force = False,
) -> int:
    """The smallest trace with the same fault: the same rule, for the same causes."""
    one_of("format", format, FORMATS)
    code = code.upper() if code is not None else None
    outputs = [path for path in (output, control, resume) if path is not None]
    if len({path.absolute() for path in outputs}) < len(outputs):
        raise UsageError("--output, --control and --resume must be different files")
    for path in outputs:
        refuse_overwriting(path, force or path == resume)
        refuse_overwriting_a_source([trace], path)
    recorded = _read(trace)
    found = _asked(recorded, code)
    replaying = replay or misfit is not None or found is None or found.rests_on in SEEN_ONLY_BY_A_RUN
    backend = backends.of(recorded.header.environment)
    shrunk = shrink(
        recorded,
        _oracle(trace, code or (found.code if found else None), misfit, seed, replaying, backend),
        budget or (REPLAYS if replaying else INSPECTIONS),
        target=_chooser(code, found) if replaying or found is None else frozenset({signature(found)}),
        at=_entry(recorded, found),
        seq=found.seq if found is not None else None,
        source=trace,
        state=resume,
    )
    told = _Told(trace, output, control if shrunk.control is not None else None, replaying, shrunk)
    write_result(_show(told, format, force), None)
    if control is not None and shrunk.control is None:
        complain(f"{control} was not written: no neighbour without the fault was found")
    return CLEAN


class _Told(msgspec.Struct):
    """What is said of a search."""

    source: str
    output: Path | None
    control: Path | None
    replaying: bool
    shrunk: Shrunk


def _read(path: str) -> Trace:
    """The whole trace, or up to the line at which a crash cut it off."""
    from mlxdiag.traces.reader import read

    trace = read(path)
    for warning in trace.warnings:
        complain(f"warning: {warning}")
    return trace


def _asked(trace: Trace, code: str | None) -> Finding | None:
    """The finding to keep, as far as the rules alone see it.

    Raises:
        UsageError: there is no rule of that code.
    """
    from mlxdiag.inspect.inspector import inspect_trace
    from mlxdiag.inspect.rules import RULES

    if code is not None and code not in {rule.code for rule in RULES}:
        raise UsageError(f"--code: there is no rule {code!r} (see 'mlxdiag rule')")
    findings = inspect_trace(trace).findings
    if code is not None:
        return next((f for f in findings if f.code == code), None)
    found = next((f for f in findings if f.severity == "error"), None)
    if found is None:
        others = ", ".join(dict.fromkeys(f"--code {f.code}" for f in findings))
        hint = f"; for what is no error: {others}" if others else ""
        complain(f"note: the rules alone see no error, so the schedule is run on real model code{hint}")
    return found


def _oracle(
    source: str, code: str | None, misfit: str | None, seed: int, replaying: bool, backend: str
) -> Oracle:
    from mlxdiag.replay.shrink import oracles

    if not replaying:
        return oracles.inspecting(code)
    from mlxdiag.replay import misfit as policies

    backends.require(backend)
    policy = policies.parse(misfit)[0] if misfit is not None else None
    return oracles.Replaying(source, code, policy, seed)


def _chooser(code: str | None, found: Finding | None) -> Callable[[frozenset[str]], frozenset[str]]:
    """Of what a replay shows: the asked headline, else the headline that the asked finding is a cause of."""
    asked = code or (found.code if found is not None else "")

    def choose(seen: frozenset[str]) -> frozenset[str]:
        ranked = sorted(seen, key=lambda one: (not one.startswith(asked), asked not in one, one))
        if asked and ranked and asked not in ranked[0]:
            return frozenset({asked})
        return frozenset(ranked[:1])

    return choose


def _entry(trace: Trace, found: Finding | None) -> int | None:
    """Number of the entry at which the fault shows."""
    if found is None or found.step is None:
        return None
    return next((i for i, e in reversed([*enumerate(trace.entries)]) if e.step == found.step), None)


def _show(told: _Told, format: str, force: bool) -> str:
    """Write the files; the account of it, or the trace itself where it has no file."""
    from mlxdiag.traces.encode import entry_line, header_text
    from mlxdiag.traces.writer import dump

    shrunk = told.shrunk
    if told.output is not None:
        dump(shrunk.trace, told.output, force)
    if told.control is not None and shrunk.control is not None:
        dump(shrunk.control, told.control, force)
    if format == "json":
        return pretty(_document(told))
    if told.output is not None:
        return "\n".join(log_line(printable(line)) for line in _account(told))
    for line in _account(told):
        complain(line)
    lines = [header_text(shrunk.trace.header), *map(entry_line, shrunk.trace.entries)]
    return b"".join(lines).decode()


def _account(told: _Told) -> Iterator[str]:
    shrunk = told.shrunk
    before, after = shrunk.before, shrunk.after
    steps = ", ".join("?" if step is None else str(step) for step in shrunk.kept)
    runs = "replays" if told.replaying else "inspections"
    yield f"{told.source}: {_count(before)} -> {_count(after)} ({shrunk.runs} {runs})"
    yield f"  left of it: step{'s' if len(shrunk.kept) != 1 else ''} {steps}"
    yield f"  still fires: {'; '.join(sorted(shrunk.target))}"
    if not shrunk.complete:
        yield "  the budget ended the search: --budget allows more"
    if told.control is not None:
        yield f"  {told.control}: the largest neighbour that passes"
    if told.output is not None:
        verb = "replay" if told.replaying else "inspect"
        yield f"  next: mlxdiag {verb} {told.output}"


def _count(size: Size) -> str:
    steps = "step" if size.steps == 1 else "steps"
    return f"{size.steps} {steps}, {size.tokens} {'token' if size.tokens == 1 else 'tokens'}"


def _document(told: _Told) -> dict[str, Any]:
    shrunk = told.shrunk
    return {
        "schema": SCHEMA,
        "source": told.source,
        "output": str(told.output) if told.output is not None else None,
        "control": str(told.control) if told.control is not None else None,
        "oracle": "replay" if told.replaying else "inspect",
        "runs": shrunk.runs,
        "complete": shrunk.complete,
        "fires": sorted(shrunk.target),
        "before": {"steps": shrunk.before.steps, "tokens": shrunk.before.tokens},
        "after": {"steps": shrunk.after.steps, "tokens": shrunk.after.tokens},
        "kept": list(shrunk.kept),
    }
