"""A plan as the lines of a script that calls transformers."""

from __future__ import annotations

from mlxdiag.audit.repro.emit import Emitter
from mlxdiag.audit.repro.transformers import caller
from mlxdiag.audit.repro.transformers.parts import NEEDS
from mlxdiag.audit.repro.variables import Group
from mlxdiag.replay.ops import Cut, Event, Forward
from mlxdiag.replay.padding import Announced


class TorchEmitter(Emitter):
    """As `Emitter`. Padding needs no announcement: the mask beside the cache says it."""

    def functions(self) -> list[str]:
        """Names of the short functions that the lines call, those that they need before them."""
        return list(dict.fromkeys(name for used in self.used for name in (*NEEDS.get(used, ()), used)))

    hidden = True
    """Whether the mask beside the cache hides the padding of the running forward."""

    def _padding(self, op: Forward, group: Group, told: Announced | None) -> None:
        left = op.batched and not group.fed and any(feed.left for feed in op.feeds)
        padded = any(feed.left or feed.right for feed in op.feeds)
        self.hidden = not padded or left or told is not None

    def _without_cache(self, op: Forward) -> str:
        left = any(feed.left for feed in op.feeds)
        self.hidden = left or not any(feed.right for feed in op.feeds)
        if self.hidden and not left and op.columns is None:
            return "None"
        self.used.setdefault("without_cache")
        return "without_cache()"

    def _handing(self, op: Forward) -> str:
        told = "" if self.hidden else ", hidden=False"
        told += "" if op.columns is None else f", columns={op.columns}"
        return told + caller.hand(op, self.instance)

    def _given_back(self, op: Cut) -> list[int]:
        """By layer; those that share the keys of another are asked for nothing."""
        kept = [
            op.kept.get(layer.family, op.kept.get("", 0)) if layer.shares is None else op.tokens
            for layer in self.instance.geometry.layers
        ]
        return [max(op.tokens - one, 0) for one in kept]

    def _roll_back(self, group: Group, tokens: int) -> None:
        """Assisted decoding asks once, when it has fed the prompt."""
        self._variables.call("trim", f"({group.name}, {tokens})")
        self.lines[-1] += "  # rejected drafts"

    def _event(self, op: Event) -> None:
        if op.phase in ("finalize", "quantize"):
            return  # padding stays where it is, and a quantised cache rounds from its first update on
        super()._event(op)
