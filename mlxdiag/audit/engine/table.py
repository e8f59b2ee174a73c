"""The columns of the audit's table: the scenarios of one process, and those that split a model over two.

The last two are named in `distributed.told` as well: the command line and the reports read their columns
here, and import nothing that a rank needs.
"""

from __future__ import annotations

from mlxdiag.audit.cell import Scenario
from mlxdiag.audit.schedules.scenarios import SCENARIOS, TRANSFORMERS

DISTRIBUTED = (
    Scenario(name="tensor-parallel", title="split over two processes by heads", group="distributed"),
    Scenario(name="pipeline", title="split over two processes by layers", group="distributed"),
)
"""Run apart, after the others, and only where they are asked for by name or by a pattern."""

COLUMNS = tuple(dict.fromkeys((*SCENARIOS, *DISTRIBUTED, *TRANSFORMERS)))
"""Of all libraries, each once."""
NAMES = tuple(scenario.name for scenario in (*SCENARIOS, *DISTRIBUTED))
USUAL = tuple(scenario.name for scenario in SCENARIOS)
APART = tuple(scenario.name for scenario in DISTRIBUTED)


def names(library: str) -> tuple[str, ...]:
    """Every scenario that a library can be asked for, in the order of its table."""
    return (*usual(library), *APART) if library == "transformers" else NAMES


def usual(library: str) -> tuple[str, ...]:
    """Those that run where none is named."""
    return tuple(scenario.name for scenario in TRANSFORMERS) if library == "transformers" else USUAL
