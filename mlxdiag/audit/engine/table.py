"""The columns of the audit's table: the scenarios of one process, and those that split a model over two.

The last two are named in `distributed.rank` as well, which needs numpy: the command line and the reports
read their columns here, and import neither it nor the library.
"""

from __future__ import annotations

from mlxdiag.audit.cell import Scenario
from mlxdiag.audit.schedules.scenarios import SCENARIOS

DISTRIBUTED = (
    Scenario(name="tensor-parallel", title="split over two processes by heads", group="distributed"),
    Scenario(name="pipeline", title="split over two processes by layers", group="distributed"),
)
"""Run apart, after the others, and only where they are asked for by name or by a pattern."""

COLUMNS = (*SCENARIOS, *DISTRIBUTED)
NAMES = tuple(scenario.name for scenario in COLUMNS)
USUAL = tuple(scenario.name for scenario in SCENARIOS)
APART = tuple(scenario.name for scenario in DISTRIBUTED)
