"""Values inside a forward, under names that two libraries have in common. No framework is imported here.

Both libraries name their modules after the same checkpoints, so `model.layers.3.self_attn.q_proj` is in both,
and what goes into it and comes out of it can be compared.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

LAYER = re.compile(r"^(?:.*?\.)?(\d+)(?:\.(.*))?$")
"""The first number in a module's name is its layer."""
ATTENTION = "attention"
"""The part that is no module: the call of the attention function, with what it is given."""
OPERANDS = ("queries", "keys", "values")
EMBED = re.compile(r"^(embed_tokens|wte|embed_in|embeddings|word_embeddings|tok_embeddings)$")


class Spot(msgspec.Struct, frozen=True, order=True):
    """Where in a forward a value stands."""

    layer: int | None
    """None: before or after the layers."""
    part: str
    """Dotted name within the layer, "" for the layer itself, or `ATTENTION`."""
    end: str
    """in, out, or one of the `OPERANDS`."""
    call: int = 0
    """Which call of this part it was."""


class Value(msgspec.Struct, frozen=True):
    """One value, in the order in which a forward makes them."""

    spot: Spot
    array: NDArray[np.float32]
    """[B, L, ...]: attention's operands are [B, L, H, D]."""


Wanted = Callable[[int | None, str], bool]
"""Whether the values of a part, by layer and name, are kept."""


def place(name: str) -> tuple[int | None, str]:
    """Layer and part of a module's dotted name; a module outside of the layers goes by its last name."""
    found = LAYER.match(name)
    if found is None:
        return None, name.rsplit(".", 1)[-1]
    return int(found[1]), found[2] or ""


class Notes:
    """Collects values while a forward runs. Reading an array is left to the library's own part."""

    def __init__(self, wanted: Wanted) -> None:
        self.wanted = wanted
        self.held: list[tuple[Spot, Any]] = []
        self.running: list[int] = []
        """Layers under way, innermost last."""
        self._calls: dict[tuple[int | None, str, str], int] = {}

    def note(self, layer: int | None, part: str, end: str, array: Any) -> None:
        """Keep an array, unread; None is nothing."""
        if array is None:
            return
        key = (layer, part, end)
        call = self._calls.get(key, 0)
        self._calls[key] = call + 1
        self.held.append((Spot(layer, part, end, call), array))

    def attention(self, queries: Any, keys: Any, values: Any) -> int | None:
        """Keep what an attention call is given; the layer it belongs to, None where it is not wanted."""
        layer = self.running[-1] if self.running else None
        if layer is None or not self.wanted(layer, ATTENTION):
            return None
        for end, array in zip(OPERANDS, (queries, keys, values), strict=True):
            self.note(layer, ATTENTION, end, array)
        return layer
