"""The best candidate for the line of the library that is at fault, from what fired and what made it."""

from __future__ import annotations

from collections.abc import Iterable

from mlxdiag.audit.judge.sites import CALL, MASK, ROPE, STATE, Sites
from mlxdiag.audit.libraries import table
from mlxdiag.models.adapter import Instance

ROLLBACK = frozenset({"MD209"})
TRIM = frozenset({"MD204", "MD205"})
MISSING = frozenset({"MD207", "MD305"})
WINDOW = frozenset({"MD108", "MD212"})
KEYS = frozenset({"MD201", "MD207", "MD208", "MD210", "MD211"})
POSITION = frozenset({"MD203"})


def line(
    instance: Instance,
    codes: Iterable[str],
    step: int | None,
    layers: list[int] | None,
    sites: Sites,
    *,
    trimmed: bool = False,
) -> str:
    """`mlx_lm/models/x.py:n`, or "" where nothing points anywhere.

    Masks are blamed for what a query sees, the cache's own method for keys and trims, the place where a state
    is stored for recurrent models of which only the logits are wrong. `trimmed`: tokens were given back
    before the step, which is to blame for keys that are missing afterwards.
    """
    fired = set(codes)
    library = table.of(instance)
    if fired & ROLLBACK:
        return library.rewinding()
    if fired & TRIM or (trimmed and fired & MISSING and not fired & WINDOW):
        return library.cache_method(instance, layers, "trim")
    if fired & KEYS:
        return library.cache_method(instance, layers, "update")
    if fired & POSITION and not any(code.startswith("MD3") for code in fired):
        return sites.of(ROPE, step, layers)
    if any(code[:3] in ("MD1", "MD3", "MD5") or code == "MD212" for code in fired):
        return sites.of(MASK, step, layers) or sites.of(CALL, step, layers)
    recurrent = [layer.index for layer in instance.geometry.layers if layer.attention == "recurrent"]
    if recurrent or sites.of(STATE, step, None):
        return sites.of(STATE, step, recurrent)
    return sites.of(MASK, step, layers) or sites.of(CALL, step, layers)
