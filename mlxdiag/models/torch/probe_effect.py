"""What an attention implementation of transformers makes of the mask that it is given.

Sources: transformers 5.24, `integrations/sdpa_attention.py`, `integrations/flash_attention.py`, and the eager
functions of the models, which add the mask to the scores.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

CAUSAL, OLDEST, WINDOWED = "causal", "oldest", "windowed"
"""Of a call without a mask: causal, over as many keys as queries; the keys are cut to the first `q`, which is
then the causal triangle over the *oldest* keys; the implementation applies its own window."""


class Effect(NamedTuple):
    """A mask, and what holds in its place where it is None: one of the above, or None where all keys are
    visible.
    """

    mask: Any
    rule: str | None = None


def effect_of(
    implementation: str, module: Any, q: int, k: int, mask: Any, kwargs: Mapping[str, Any]
) -> Effect:
    """What becomes of a call with `q` queries and `k` keys.

    sdpa without a mask is causal for more than one query, aligned to the upper left: with more keys than
    queries it cuts keys and values to the first `q` (meant for an empty static cache, whose tail is unused).
    flash aligns to the lower right and knows the window itself. Everything else attends to all keys.
    """
    if mask is not None:
        return Effect(mask)
    if "flash" in implementation:
        return Effect(None, CAUSAL if kwargs.get("sliding_window") is None else WINDOWED)
    if implementation != "sdpa" or q <= 1 or not _causal(module, kwargs):
        return Effect(None)
    return Effect(None, OLDEST if k > q else CAUSAL)


def takes_boolean(implementation: str) -> bool:
    """Whether a boolean mask is understood, and not added to the scores as 0 and 1."""
    return implementation == "sdpa"


def _causal(module: Any, kwargs: Mapping[str, Any]) -> bool:
    given = kwargs.get("is_causal")
    return bool(getattr(module, "is_causal", True) if given is None else given)
