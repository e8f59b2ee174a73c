"""The smallest schedule that still shows a fault: by the rules alone where a run agrees, else by runs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from msgspec.structs import replace

from mlxdiag.errors import MlxdiagError
from mlxdiag.inspect.findings import Finding, codes
from mlxdiag.traces.types import Entry, Trace

if TYPE_CHECKING:
    from mlxdiag.replay.shrink import Shrunk

INSPECTIONS = 5_000
"""Of traces that the rules alone judge: milliseconds each."""
REPLAYS = 24
"""On real model code, where the rules alone do not see the fault."""
SEEN_ONLY_BY_A_RUN = ("visibility", "parity")
NO_MORE_THAN_A_WARNING = (
    "{} is a warning here, and a run of the smallest schedule with it shows every query attend what it must"
)


def smallest(trace: Trace, fault: Finding) -> Shrunk | str:
    """The schedule, as `mlxdiag shrink` makes it; or why there is none."""
    from mlxdiag.bundle.reproduce.trying import run
    from mlxdiag.replay.shrink import oracles, shrink

    wanted = {fault.code} if fault.rests_on in SEEN_ONLY_BY_A_RUN else codes([fault])
    for plain, known in _known_by_rules(trace, fault):
        try:
            small = shrink(
                plain,
                oracles.inspecting(known.code),
                INSPECTIONS,
                target=frozenset({oracles.signature(known)}),
                at=_entry(plain, known),
                seq=known.seq,
                source="trace.yaml",
            )
        except MlxdiagError:
            continue
        seen = run(small.trace)
        if not isinstance(seen, str) and wanted & set(seen.codes):
            if fault.severity == "error" or seen.wrong_at_all:
                return small
            return NO_MORE_THAN_A_WARNING.format(fault.code)
    try:
        return shrink(
            trace,
            oracles.Replaying("trace.yaml", fault.code),
            REPLAYS,
            target=lambda shown: _chosen(shown, fault),
            at=_entry(trace, fault),
            seq=fault.seq,
            source="trace.yaml",
        )
    except MlxdiagError as error:
        return str(error)


def _known_by_rules(trace: Trace, fault: Finding) -> Iterator[tuple[Trace, Finding]]:
    """What the rules alone can watch while the trace is cut: the fault itself, or what it is caused by.

    What a run read of masks and logits is true of its lengths only, so it is left out of the trace then.
    """
    from mlxdiag.inspect.inspector import inspect_trace

    if fault.rests_on not in SEEN_ONLY_BY_A_RUN:
        yield trace, fault
        return
    plain = Trace(trace.header, [_unread(entry) for entry in trace.entries])
    causes = codes([fault]) - {fault.code}
    for finding in inspect_trace(plain).findings:
        if finding.severity == "error" and codes([finding]) & causes:
            yield plain, finding
            return


def _unread(entry: Entry) -> Entry:
    from mlxdiag.replay.shrink.calls import READ

    nothing = dict.fromkeys(READ)
    calls, outputs = entry.attention, entry.output
    return replace(
        entry,
        attention=[replace(call, **nothing) for call in calls] if calls is not None else None,
        output=[replace(one, parity=None) for one in outputs] if outputs is not None else None,
    )


def _chosen(seen: frozenset[str], fault: Finding) -> frozenset[str]:
    """Of what a run shows: the fault as a headline, else the headline that it is a cause of."""
    ranked = sorted(seen, key=lambda one: (not one.startswith(fault.code), fault.code not in one, one))
    if ranked and fault.code in ranked[0]:
        return frozenset(ranked[:1])
    return frozenset({fault.code})


def _entry(trace: Trace, fault: Finding) -> int | None:
    """Number of the entry at which the fault shows."""
    numbered = reversed([*enumerate(trace.entries)])
    return next((i for i, e in numbered if e.step == fault.step), None) if fault.step is not None else None
