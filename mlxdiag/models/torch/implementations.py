"""The attention implementation that a recorded program ran with, where this machine has it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from mlxdiag.errors import UnreadableError
from mlxdiag.models.adapter import Skipped

HERE = ("sdpa", "eager")
"""Those that torch brings for every device. Others need a GPU, a package or a compiler of their own."""
PAGED = "paged|"
"""How transformers names continuous batching's own form of an implementation."""


def like(recorded: str | None, build: Callable[[str | None], Any]) -> Any:
    """What `build(implementation)` makes with the recorded one, or with the library's own choice (None) where
    it is none of `HERE` or the family refuses it. A note of its geometry says what is not as recorded.
    """
    wanted = recorded.removeprefix(PAGED) if recorded is not None else None
    if recorded is None or wanted not in HERE:
        return _noted(build(None), recorded, None)
    try:
        built = build(wanted)
        refused = str(built) if isinstance(built, Skipped) else None
    except UnreadableError as error:
        refused = str(error)
    if refused is None:
        return _noted(built, recorded, None)
    # Whatever else is wrong with it is said by the second attempt.
    return _noted(build(None), recorded, refused)


def _noted(built: Any, recorded: str | None, refused: str | None) -> Any:
    if isinstance(built, Skipped) or recorded in (None, built.attention):
        return built
    why = f" ({refused})" if refused else ""
    note = f"attention was {recorded} when recorded, and is run with {built.attention}{why}"
    geometry = msgspec.structs.replace(built.geometry, notes=(*built.geometry.notes, note))
    return msgspec.structs.replace(built, geometry=geometry)
