"""What a session knows of a library whose programs it records."""

from __future__ import annotations

from types import ModuleType
from typing import Any, Protocol

from mlxdiag.models.adapter import Geometry
from mlxdiag.record.visible import Visible
from mlxdiag.traces.types import Entry


class Following(Protocol):
    """One library under its probe, from `follow` to `stop`."""

    visible: Visible | None
    """At the visibility level: what reads the masks."""

    def imported(self, module: ModuleType, name: str) -> None:
        """Follow what a module of the library has brought."""
        ...

    def watch(self, model: Any) -> str | None:
        """What events call a model, whether it has run or not; None for another library's."""
        ...

    def model(self, name: str) -> Any:
        """The model that events call `name`; None for another library's."""
        ...

    def announce(self, model: Any, name: str) -> tuple[Entry, Geometry | None]:
        """The entry that says what a model of this library is, and its layers where they are known."""
        ...

    def setting(self, model: Any) -> dict[str, str]:
        """Where and how a model of this library runs: its device and its attention implementation, as far as
        it tells them without being waited for.
        """
        ...

    def stop(self) -> None:
        """Put the originals back."""
        ...
