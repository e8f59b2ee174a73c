"""What a comparison of two libraries finds, as data.

The JSON form of `Across` is the contract `mlxdiag.across/1`.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from mlxdiag.audit.cell import Scenario

SCHEMA = "mlxdiag.across/1"
CODE = "MD403"

SAVED = Scenario(
    name="as-saved",
    title="the folder that transformers 5 writes, read by mlx-lm as it is; one pass longer than the window",
    group="saved",
)
"""Beside the scenarios of the audit, which run what is published."""

Result = Literal["agree", "differ", "own", "refused", "crash", "skipped"]
"""agree: every position's logits lie within the tolerance. differ: not so. own: not so either, and yet the
two models agree in a single pass of the same tokens, which one library leaves under this schedule; that is a
fault of its own, for its own table. refused: one library says that it cannot do this. crash: one of them
threw. skipped: there is nothing to compare, for the reason given."""

Kind = Literal[
    "visibility", "positions", "attention", "experts", "norm", "embedding", "logits", "inside", "precision"
]
"""What a difference is, told by the first value that differs: which keys a query sees; where RoPE puts it;
what attention makes of the same queries and keys (scale, cap, sinks); the feed-forward part; a norm; the
embedding; what comes after the layers; anything else. precision: one and the same value, rounded in one of
them."""


class Cell(msgspec.Struct, kw_only=True, omit_defaults=True):
    """One family under one scenario, in both libraries."""

    family: str
    scenario: str
    result: Result
    library: str = ""
    """The library that refuses, crashes, or departs from what the config means; empty where that is not told.
    """
    kind: Kind | None = None
    also: Kind | None = None
    """Another difference behind the first one: queries that see other keys."""
    also_library: str = ""
    """As `library`, of that other difference: what one library sees wrongly says nothing of the first one."""
    codes: list[str] = []
    reason: str = ""
    """One sentence."""
    compared: int = 0
    """Positions whose logits were compared."""
    queries: int = 0
    """Queries, of each layer, whose visible keys both libraries told."""
    unit: float | None = None
    """Standard deviation of the logits of transformers."""
    largest: float | None = None
    """Largest difference of a logit, in units."""
    tolerance: float | None = None
    """In units."""
    evidence: dict[str, Any] = {}
    """step, phase, seq, position (the first wrong one), layer, part, agreed, by; query (the one that sees
    other keys and that decided, or else the first of another difference), seen (by library: the last
    positions that it sees), keys (by library: how many), meant and due (the same by the config), own (by
    library: agrees with its own single pass), margin."""
    causes: list[str] = []
    """The differences that it shows, by their ids; the first one is that of `kind`."""
    where: str = ""
    """The line that departs, `mlx_lm/models/gemma2.py:176`."""
    seconds: float = 0.0


class Difference(msgspec.Struct, kw_only=True, omit_defaults=True):
    """One cause, over all the cells in which the two libraries differ by it."""

    id: str
    code: str = CODE
    kind: Kind
    library: str = ""
    """The one that departs; empty where nobody has read it up and it cannot be told."""
    families: list[str]
    cells: list[tuple[str, str]]
    cause: str
    where: str = ""
    largest: float = 0.0
    known: bool = False
    """Somebody has read it up: it is in `causes.yaml`."""


RowResult = Literal["agree", "differ", "refused", "crash", "lacks", "apart", "unjudged"]
"""Of a family's scenarios: differ where any does, else agree where any does, else crash or refused. lacks:
only one library has it. apart: the two models of this name cannot hold the same weights. unjudged: no verdict
came, by a fault of this program."""


class Row(msgspec.Struct, kw_only=True, omit_defaults=True):
    """One family."""

    family: str
    result: RowResult
    library: str = ""
    """The library that lacks it, refuses it, or crashes when it is built."""
    reason: str = ""
    noise: dict[str, float] = {}
    """By library: the measured noise floor, as a fraction of the logits' standard deviation."""
    seconds: float = 0.0


class Across(msgspec.Struct, kw_only=True, omit_defaults=True):
    """The whole comparison."""

    schema: str = SCHEMA
    libraries: dict[str, str]
    """Versions."""
    device: str
    seed: int = 0
    asked: list[str] = []
    scenarios: list[str]
    rows: list[Row]
    cells: list[Cell]
    differences: list[Difference] = []
    notes: list[str] = []
    seconds: float = 0.0

    def tally(self) -> dict[str, int]:
        """Cells by result."""
        return _counts(cell.result for cell in self.cells)

    def families(self) -> dict[str, int]:
        """Rows by result."""
        return _counts(row.result for row in self.rows)


def _counts(results: Any) -> dict[str, int]:
    counts: dict[str, int] = {}
    for result in results:
        counts[result] = counts.get(result, 0) + 1
    return counts


def row_of(family: str, cells: list[Cell], noise: dict[str, float], seconds: float) -> Row:
    """The row of a family from its cells."""
    held = {cell.result for cell in cells}
    found = next((one for one in _ORDER if one in held), "skipped")
    result = _ORDER.get(found, "unjudged")
    reason = next((cell.reason for cell in cells if cell.result == found), "") if result != "agree" else ""
    return Row(family=family, result=result, reason=reason, noise=noise, seconds=seconds)


_ORDER: dict[str, RowResult] = {
    "differ": "differ",
    "agree": "agree",
    "own": "agree",
    "crash": "crash",
    "refused": "refused",
}
"""Results of cells, those first that a row is named after, and what the row is called."""
