"""Who makes what in transformers: masks, attention calls, rotations and recurrent states, by their callers.

Everything has a name of its own there: masks come from `create_*_mask`, attention goes through a function
that takes the layer's module, states through methods of the cache.
"""

from __future__ import annotations

from pathlib import Path
from types import FrameType
from typing import Any

from mlxdiag.audit.judge.sites import CALL, MASK, ROPE, STATE, Sites, place
from mlxdiag.audit.judge.trial import Trial

SLIDING = frozenset({"create_sliding_window_causal_mask", "create_chunked_causal_mask"})
MAKERS = SLIDING | {"create_causal_mask", "create_bidirectional_mask", "create_recurrent_attention_mask"}
ATTENTION = frozenset({"sdpa_attention_forward", "eager_attention_forward"})
STATES = frozenset({"update_conv_state", "update_recurrent_state", "update_indexer"})
FILES = ("modeling_", "modular_")
"""How the files of families begin."""


class TorchSites(Sites):
    """Notes for each step and layer the line of the family's own module."""

    def __init__(self, trial: Trial) -> None:
        super().__init__(trial)
        self._local = {
            layer.index
            for layer in trial.instance.geometry.layers
            if layer.attention in ("sliding", "chunked")
        }
        self._asked: dict[tuple[int, bool], str] = {}
        """By step, and whether it was for layers that see part of the past: where a mask was asked for."""

    def of(self, kind: str, step: int | None, layers: list[int] | None) -> str:
        """As `Sites.of`. The mask of a layer is the one that layers of its kind ask for."""
        if kind == MASK and step is not None and layers:
            local = layers[0] in self._local
            if (line := self._asked.get((step, local))) is not None:
                return line
        return super().of(kind, step, layers)

    def _note(self, frame: FrameType, event: str, value: Any) -> None:
        if event != "call":
            return
        name = frame.f_code.co_name
        if name in MAKERS:
            line = family_line(frame)
            if line:
                self._asked.setdefault((self._trial.step, name in SLIDING), line)
                self._found.setdefault((MASK, self._trial.step, None), line)
        elif name in ATTENTION:
            module = frame.f_locals.get("module")
            self._hold(CALL, frame, getattr(module, "layer_idx", None))
        elif name in STATES:
            self._hold(STATE, frame, frame.f_locals.get("layer_idx"))
        elif name.startswith("apply_rotary"):
            self._hold(ROPE, frame, self._trial.probe.layer)

    def _hold(self, kind: str, frame: FrameType, layer: int | None) -> None:
        line = family_line(frame)
        if line:
            self._found.setdefault((kind, self._trial.step, layer), line)


def family_line(frame: FrameType) -> str:
    """The nearest line above, this one left out, in the module of a family; "" where there is none."""
    above = frame.f_back
    while above is not None:
        path = Path(above.f_code.co_filename)
        if path.name.startswith(FILES) and "transformers" in path.parts:
            return place(str(path), above.f_lineno)
        above = above.f_back
    return ""
