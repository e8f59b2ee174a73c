"""Where faults are planted in transformers: its cache classes, and what it looks up when it calls it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from transformers import cache_utils
from transformers.modeling_utils import AttentionInterface

from mlxdiag.audit.plants.ground import Ground, Wrap
from mlxdiag.replay.parity import Floats


class Bed(Ground):
    """What faults of transformers are made with."""

    caches = cache_utils
    forward = "forward"

    def probed(self) -> bool:
        return hasattr(AttentionInterface.get_interface, "__wrapped__")

    def ids(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        return kwargs["input_ids"].numpy()

    def logits(self, out: Any) -> Floats:
        seen = out.logits if getattr(self.instance, "head", None) is None else out.last_hidden_state
        logits: Floats = seen.detach().float().numpy()
        return logits

    def function(self, owner: Any, name: str, wrap: Wrap) -> None:
        """Replace a function or a method that the library looks up when it calls it."""
        self.patches.add(owner, name, wrap)


Install = Callable[[Bed], None]
"""Puts a fault in: what a plant is made of."""
