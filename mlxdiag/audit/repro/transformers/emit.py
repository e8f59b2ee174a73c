"""A plan as the lines of a script that calls transformers."""

from __future__ import annotations

from mlxdiag.audit.repro.emit import Emitter
from mlxdiag.audit.repro.transformers.parts import NEEDS
from mlxdiag.audit.repro.variables import Group
from mlxdiag.replay.ops import Event, Forward
from mlxdiag.replay.padding import Announced


class TorchEmitter(Emitter):
    """As `Emitter`. Padding needs no announcement: the mask beside the cache says it."""

    def functions(self) -> list[str]:
        """Names of the short functions that the lines call, those that they need before them."""
        return list(dict.fromkeys(name for used in self.used for name in (*NEEDS.get(used, ()), used)))

    def _padding(self, op: Forward, group: Group, told: Announced | None) -> None:
        return

    def _roll_back(self, group: Group, tokens: int) -> None:
        """Assisted decoding asks once, when it has fed the prompt."""
        self._variables.call("trim", f"({group.name}, {tokens})")
        self.lines[-1] += "  # rejected drafts"

    def _event(self, op: Event) -> None:
        if op.phase in ("finalize", "quantize"):
            return  # padding stays where it is, and a quantised cache rounds from its first update on
        super()._event(op)
