"""The edge of a fault, in words: the smallest schedule that fails, the nearest that passes, where it lies."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from mlxdiag.bundle.reproduce import serving
from mlxdiag.bundle.reproduce.controls import PASSES, Control
from mlxdiag.errors import MlxdiagError
from mlxdiag.inspect.findings import Finding, codes
from mlxdiag.replay import callers
from mlxdiag.reports.view import count
from mlxdiag.traces.types import FORWARD_PHASES, Entry, Trace

if TYPE_CHECKING:
    from mlxdiag.replay.shrink import Shrunk

MOST_STEPS = 6
SCHEDULED = frozenset({"MD203", "MD206", "MD404"})
"""Faults of what is fed and sampled: a library that does as it is told shows them too."""


def in_short(
    fault: Finding, small: Shrunk, nearest: Trace | None, controls: Sequence[Control]
) -> Iterator[str]:
    """What fails, what passes next to it (`nearest`), and in whose code the fault is."""
    cause = fault.cause[0].split(": ", 1)[-1] if fault.cause else fault.message
    yield f"The fault: {fault.message}." + (f" Because: {cause}." if fault.cause else "")
    yield (
        f"The smallest schedule that fails: {describe(small.trace)} ({count(small.after.tokens, 'token')} in "
        f"{count(small.after.steps, 'step')}, of {small.before.tokens} in {small.before.steps})."
    )
    if nearest is not None:
        yield f"The nearest that passes: {describe(nearest)}."
    yield from _whose(fault, small.trace, controls)


def describe(trace: Trace) -> str:
    """`window 2: prefill 3 tokens, then chunk 1`."""
    entries = [entry for entry in trace.entries if entry.rows or entry.attention]
    steps = [_step(entry) for entry in entries if entry.kind not in ("model", "end", "note")]
    shown = ", then ".join(steps[:MOST_STEPS])
    more = len(steps) - MOST_STEPS
    windows = sorted({f"{name} window {w}" for name, w in _windows(trace)})
    return (f"{', '.join(windows)}: " if windows else "") + shown + (f" and {more} more" if more > 0 else "")


def _windows(trace: Trace) -> Iterator[tuple[str, int]]:
    model = trace.header.model
    for layers in (model.layers if model else None, *(entry.layers for entry in trace.entries)):
        for name, family in (layers or {}).items():
            if family.window is not None:
                yield name, family.window


def _step(entry: Entry) -> str:
    rows = entry.rows or []
    if entry.kind not in FORWARD_PHASES:
        cut = next((row.asked for row in rows if row.asked is not None), None)
        return f"{entry.kind} {cut}" if cut is not None else entry.kind
    fed = " + ".join(_fed(row.tokens, row.padded, row.offset) for row in rows)
    mask = ""
    if entry.mask is not None and entry.mask.shape is not None:
        mask = f" under a mask of {list(entry.mask.shape)}"
    columns = callers.columns(entry)
    if columns is not None:
        mask += f" under a padding mask of {count(columns, 'column')}"
    return f"{entry.kind} {fed}{mask}"


def _fed(tokens: int | None, padded: int | None, offset: int | None) -> str:
    said = "1 token" if tokens == 1 else f"{tokens} tokens"
    if padded is not None and padded != tokens:
        said += f" padded to {padded}"
    return said + (f" at {offset}" if offset else "")


def _whose(fault: Finding, trace: Trace, controls: Sequence[Control]) -> Iterator[str]:
    """The replay puts in what the recorded program did and the library does not: then it is the program's."""
    from mlxdiag.replay import experiment

    library = serving.of(trace.header.environment).name
    try:
        planted = experiment.prepare(trace, source="trace.yaml").plan.planted
    except MlxdiagError:
        return
    single = next((one for one in controls if one.name == "single-pass"), None)
    right = single is not None and single.result == PASSES
    if planted:
        yield (
            f"It lies in the program that calls the library, not in {library}: the reproduction puts in what "
            f"the trace shows that program do ({'; '.join(planted)})"
            + (f", and with the masks and caches of {library} itself it passes." if right else ".")
        )
    elif right and codes([fault]) & SCHEDULED:
        yield (
            f"It lies in the program that schedules, not in {library}: the reproduction feeds and samples as "
            "the trace shows that program do, and a single pass of the same tokens is right."
        )
    elif right:
        yield f"It lies on this path of {library}: nothing is put in, and a single pass of it all is right."
    else:
        yield f"Nothing is put in: the code of {library} does this, and its single pass is not right either."
