"""What each sequence has been through: fed, trimmed, adopted, emitted."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mlxdiag.inspect.run import Run
    from mlxdiag.traces.types import Entry


class Sequences:
    """State per sequence, of bounded size."""

    def __init__(self, run: Run) -> None:
        self.run = run

    def feed(self, entry: Entry) -> bool:
        """Read a forward or a cache event. True when nothing in it can interest an MD2 or MD6 `on_entry`."""
        return True
