"""The smallest trace with the same fault: steps and rows left out, lengths made short, offsets following.

`shrink` takes any oracle, a function from a trace to the signatures of the faults that it shows; `oracles`
has two.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from mlxdiag.errors import UnjudgedError
from mlxdiag.replay.shrink.oracles import Counted, Oracle
from mlxdiag.replay.shrink.search import Search, Shrunk
from mlxdiag.replay.shrink.sketch import Sketch, measure, renumbered
from mlxdiag.traces.types import Trace

__all__ = ["Shrunk", "shrink"]

REPLAYS = 60
"""Runs that a search on real model code may take."""


def shrink(
    trace: Trace,
    oracle: Oracle,
    budget: int = REPLAYS,
    *,
    target: frozenset[str] | Callable[[frozenset[str]], frozenset[str]] | None = None,
    at: int | None = None,
    seq: str | None = None,
    fixed: Sequence[str] = (),
    source: str = "",
    state: Path | None = None,
) -> Shrunk:
    """Make `trace` smaller while `oracle` still sees every signature of `target`.

    `target` None: all that it sees of the trace as it is; a function chooses among that. `at` (number of an
    entry) and `seq` say where the fault shows, which saves calls. `fixed` names kinds of lengths to leave
    alone, as `("window",)` for an oracle whose model has a window of its own. `state`: a file that an
    interrupted search goes on from.

    The input is never changed, and equal arguments give equal results.

    Raises:
        UnjudgedError: the oracle does not see the fault in the trace as it is.
    """
    sketch = Sketch(trace)
    counted = Counted(oracle, budget, state)
    seen = counted(trace)
    if seen is None:
        raise UnjudgedError(f"{source or 'the trace'} could not be judged, so nothing can be shrunk")
    wanted = target(seen) if callable(target) else target if target is not None else seen
    if not wanted or not wanted <= seen:
        said = f"does not show {', '.join(sorted(wanted))}" if wanted else "shows no fault"
        shown = f", but {', '.join(sorted(seen))}" if seen else ""
        raise UnjudgedError(f"{source or 'the trace'} {said}{shown}: nothing to shrink")
    search = Search(sketch, counted, wanted, fixed=fixed, at=at, seq=seq)
    search.run()
    return _result(sketch, search, counted, wanted, source)


def _result(sketch: Sketch, search: Search, counted: Counted, target: frozenset[str], source: str) -> Shrunk:
    best = sketch.write(search.best)
    assert best is not None
    origin = {"of": source} if source else {}
    smallest = renumbered(best, origin)
    counted.budget += 1
    still = counted(smallest)
    if still is None or not target <= still:
        smallest = best  # a rule that needs the trace's own numbering, as of a record that is not whole
    control = search.control()
    entries = sketch.trace.entries
    return Shrunk(
        trace=smallest,
        control=renumbered(control, origin) if control is not None else None,
        runs=counted.calls,
        target=target,
        before=measure(sketch.trace),
        after=measure(smallest),
        kept=tuple(entries[number].step for number in sketch.steps(search.best)),
        complete=search.complete,
    )
