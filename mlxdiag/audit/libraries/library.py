"""What every audited library fills, so that the judge, the engine and the scripts name none of them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from types import ModuleType
from typing import TYPE_CHECKING, Any, Protocol

from mlxdiag.models.adapter import Instance, Skipped

if TYPE_CHECKING:
    from mlxdiag.audit.cell import Cell
    from mlxdiag.audit.judge.sites import Sites
    from mlxdiag.audit.judge.trial import Trial
    from mlxdiag.replay.ops import Plan


class Library(Protocol):
    """One library. Nothing of it is imported before a method is called."""

    @property
    def name(self) -> str:
        """As in `--library` and in `Cell.library`."""
        ...

    @property
    def package(self) -> str:
        """The name that is imported, and the folder that a place in its source begins with."""
        ...

    @property
    def backend(self) -> str:
        """`Backend.name` of its instances."""
        ...

    @property
    def versions(self) -> tuple[str, ...]:
        """Distributions whose versions an audit names."""
        ...

    @property
    def asks_trim(self) -> str:
        """What a server asks before it takes tokens back, by its name in the library."""
        ...

    @property
    def asks_always(self) -> bool:
        """It asks before rejected drafts are taken back, too, and not only when decoding begins."""
        ...

    # -- what there is ----------------------------------------------------------------------------------

    def load(self) -> ModuleType | Skipped:
        """The package, imported once; why not, where it cannot be."""
        ...

    def parts(self) -> Iterator[str]:
        """Import all families, each named before it is imported."""
        ...

    def forbid(self, part: str, how: str) -> None:
        """Import this part no more: it ended a process, `how`."""
        ...

    def families(self) -> tuple[str, ...]:
        """The rows of the table, sorted."""
        ...

    def others(self) -> dict[str, str]:
        """What is no row, with the reason."""
        ...

    def use_device(self, name: str | None) -> str:
        """Compute on this device from here on; the name of the device that computes.

        Raises UsageError for an unknown one, UnjudgedError for one that does not compute.
        """
        ...

    def tiny(self, family: str, seed: int, device: str | None = None) -> Instance | Skipped:
        """The row as a tiny instance."""
        ...

    def broken(self, family: str) -> Skipped | None:
        """Set where the library itself breaks the family: with a `where`, if a line is known."""
        ...

    # -- runs -------------------------------------------------------------------------------------------

    def staged(self, instance: Instance, scenario: str) -> Instance:
        """The instance with the caches that the scenario is about."""
        ...

    def trial(self, plan: Plan, scenario: str) -> type[Trial]:
        """The run that a scenario's schedule needs."""
        ...

    def drive(self, cell: Cell, instance: Instance, noise: float, seed: int) -> bool:
        """Fill the cell of a scenario that a loop of the library's runs as a whole; False for any other."""
        ...

    def small_buffers(self) -> AbstractContextManager[None]:
        """Make buffers of caches grow in small steps, where they grow in steps."""
        ...

    def untrimmable(self, caches: list[Any]) -> str | None:
        """Why a server that asks first would take no tokens back; None where it may."""
        ...

    def quantises(self, caches: list[Any]) -> bool:
        """Whether any of these says that it can be quantised."""
        ...

    def rounded(self, caches: list[Any], bits: int) -> list[Any] | None:
        """The caches with those rounded that the library would quantise; None where it refuses."""
        ...

    # -- who is to blame --------------------------------------------------------------------------------

    def sites(self, trial: Trial) -> Sites:
        """What notes who makes masks, states and calls."""
        ...

    def cache_method(self, instance: Instance, layers: list[int] | None, name: str) -> str:
        """Where "update" or "trim" of a cache is defined, for the first of these layers; "" if nowhere."""
        ...

    def rewinding(self) -> str:
        """Where speculative decoding takes rejected drafts back."""
        ...
