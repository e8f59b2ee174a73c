"""What an audit finds, as data: the cells of its table, the faults behind them, and the whole.

The JSON form of `Audit` is the contract `mlxdiag.audit/1`.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

SCHEMA = "mlxdiag.audit/1"
LIBRARY = "mlx-lm"
"""The audited library, by the name of its package."""

Result = Literal["pass", "fail", "crash", "unsupported", "skipped"]
"""pass: judged and right. fail: an oracle says that attention or logits are wrong. crash: the library threw,
or the process died, where it had to work. unsupported: the library refuses it, and says so cleanly. skipped:
the scenario does not apply to this family, or the family cannot run here; the reason says which."""

ORACLES = ("geometry", "visibility", "parity")
"""Weakest first."""


class Cell(msgspec.Struct, kw_only=True, omit_defaults=True):
    """One family under one scenario."""

    library: str
    family: str
    scenario: str
    result: Result
    codes: list[str] = []
    """Rule codes that fired as errors, sorted, causes included."""
    oracles: list[str] = []
    """Which oracles spoke against it."""
    judged: dict[str, int] = {}
    """By oracle: calls, queries and positions that it could judge. All zero is never a pass."""
    reason: str = ""
    """One sentence: what is wrong, why it was skipped or refused, or why what looks wrong is excused."""
    excuse: str = ""
    """Name of the entry in `causes.yaml` that turned what looks wrong into a pass."""
    where: str = ""
    """Where the library makes the mask, cache or state: `mlx_lm/models/gemma2.py:176`."""
    evidence: dict[str, Any] = {}
    """step, seq, layers, positions (bounded list of wrong ones), first (position), max_abs and tolerance
    (logits), margin (top-2 at the first wrong position)."""
    trace: str = ""
    """The schedule as a trace (text), for cells that are not pass or skipped."""
    signature: str = ""
    """What two cells of one cause have in common; see `faults.faults`."""
    seconds: float = 0.0
    noise: float = 0.0
    """The family's noise floor on its way to `Audit.noise`."""

    @property
    def key(self) -> tuple[str, str, str]:
        return self.library, self.family, self.scenario

    @property
    def wrong(self) -> bool:
        return self.result in ("fail", "crash")


class Fault(msgspec.Struct, kw_only=True, omit_defaults=True):
    """One cause, over all the cells that it breaks."""

    id: str
    """Stable over runs: baselines name faults by it. The name in `causes.yaml`, or made of the signature."""
    code: str
    codes: list[str] = []
    library: str
    families: list[str]
    cells: list[tuple[str, str]] = []
    """(family, scenario), sorted."""
    cause: str
    where: str = ""
    oracles: list[str] = []
    smallest: str = ""
    """The smallest failing schedule, as a trace (text)."""
    schedule: str = ""
    """The same in one line for people: `prefill 9, decode 1 (window 8)`."""
    positions: list[int] = []
    """Wrong positions under the smallest schedule, bounded."""
    first: int | None = None
    max_abs: float | None = None
    tolerance: float | None = None
    repro: str = ""
    """File name of the standalone script, when scripts were written."""
    confirmed: bool = False
    """The script was run here, and it showed the fault."""
    known: bool = False
    """The cause is written in `causes.yaml`, so somebody has read the source."""


class Audit(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A whole audit, or one shard of it."""

    schema: str = SCHEMA
    libraries: dict[str, str]
    """Versions of the audited library and of what it computes with."""
    sources: dict[str, str] = {}
    """What the files of the audited library and of mlxdiag hold, as short hashes: versions do not tell."""
    device: str
    seed: int = 0
    shard: tuple[int, int] | None = None
    """(i, n), counted from 1; None: the whole."""
    asked: list[str] = []
    """Families or patterns that were asked for, sorted; empty: all."""
    families: int = 0
    """Modules of the library that hold a language model."""
    cells: list[Cell]
    faults: list[Fault] = []
    noise: dict[str, float] = {}
    """By family: measured noise floor, as a fraction of the standard deviation of the logits."""
    notes: list[str] = []
    seconds: float = 0.0

    def tally(self) -> dict[str, int]:
        """Cells by result."""
        counts: dict[str, int] = {}
        for cell in self.cells:
            counts[cell.result] = counts.get(cell.result, 0) + 1
        return counts


class Scenario(msgspec.Struct, frozen=True, kw_only=True):
    """A scheduling path. `engine.table.COLUMNS` is the visible tuple of them all."""

    name: str
    """Kebab case, stable: baselines and `--scenario` use it."""
    title: str
    """One line for people."""
    group: str
    """prefill, decode, trim, reuse, cap, quantized, static, batch, isolation,
    generation or distributed."""
