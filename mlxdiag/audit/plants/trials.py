"""Do the oracles find what was planted? One plant in one cell, beside the same cell without it.

The fault sits in the library while everything runs, the single pass included, as a fault of a release would:
parity then compares one wrong answer with another, and only sees what the paths do differently.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext

import msgspec

from mlxdiag.audit.cell import Cell, Scenario
from mlxdiag.audit.judge.judge import judge
from mlxdiag.audit.judge.passes import Passes
from mlxdiag.audit.plants.outputs import Effect
from mlxdiag.audit.plants.plant import NOTHING, Plant
from mlxdiag.models.adapter import Instance


class _InPlace:
    """What `judge` is told: there is a fault, and it need not be put in."""

    def apply(self, _instance: Instance, _scenario: Scenario) -> AbstractContextManager[None]:
        return nullcontext()


_IN_PLACE = _InPlace()


class Attempt(msgspec.Struct, frozen=True, kw_only=True):
    """One plant in one cell whose healthy twin passes."""

    plant: str
    family: str
    scenario: str
    acted: int
    """How often the fault changed a mask, a key, an offset or a state."""
    moved: int
    """Real tokens whose logits it changed, against the run without it."""
    cell: Cell

    @property
    def observable(self) -> bool:
        """It changed what the model puts out. Decided without any oracle."""
        return self.moved > 0 and not self.declined

    @property
    def declined(self) -> bool:
        """The library refused to go on, and nothing wrong was answered: the cell says "unsupported"."""
        return self.cell.result == "unsupported"

    @property
    def killed(self) -> bool:
        return self.cell.wrong

    @property
    def survived(self) -> bool:
        """The model answers otherwise than it should, and the audit says nothing."""
        return self.observable and not self.killed

    @property
    def caught_by(self) -> tuple[str, ...]:
        """Oracles that spoke; "crash" where the run broke and the fault was seen by that alone."""
        return tuple(self.cell.oracles) or (("crash",) if self.cell.result == "crash" else ())


def control(instance: Instance, scenario: Scenario, *, noise: float, seed: int = 0) -> tuple[Cell, Effect]:
    """The cell with nothing planted, and the outputs of the model meanwhile."""
    return _run(NOTHING, instance, scenario, noise, seed)


def attempts(
    instance: Instance, scenario: Scenario, plants: Iterable[Plant], *, noise: float, seed: int = 0
) -> Iterator[Attempt]:
    """Each plant that this scenario's path can reach, where its fault acts. Nothing where the cell does not
    pass without a plant: what fails anyway proves nothing.

    `noise`: the family's noise floor, as `noise.floor` measures it.

    Raises:
        Exception: as `judge`; where the code of a plant itself fails, too.
    """
    right, healthy = control(instance, scenario, noise=noise, seed=seed)
    if right.result != "pass":
        return
    for plant in plants:
        if not plant.touches(scenario):
            continue
        cell, effect = _run(plant, instance, scenario, noise, seed)
        if effect.acted:
            yield Attempt(
                plant=plant.name,
                family=instance.name,
                scenario=scenario.name,
                acted=effect.acted,
                moved=effect.moved(healthy),
                cell=cell,
            )


def _run(
    plant: Plant, instance: Instance, scenario: Scenario, noise: float, seed: int
) -> tuple[Cell, Effect]:
    with plant.apply(instance, scenario) as effect:
        cell = judge(instance, scenario, noise=noise, seed=seed, passes=Passes(instance), plant=_IN_PLACE)
    return cell, effect
