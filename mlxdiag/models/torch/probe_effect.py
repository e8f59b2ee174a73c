"""What an attention implementation of transformers makes of the mask that it is given.

Sources: transformers 5.24, `integrations/sdpa_attention.py`, `integrations/flash_attention.py`, and the eager
functions of the models, which add the mask to the scores.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from mlxdiag.models.torch.probe_functions import FLASH, FOREIGN, SDPA

CAUSAL, OLDEST, WINDOWED = "causal", "oldest", "windowed"
"""Of a call without a mask: causal, over as many keys as queries; the keys are cut to the first `q`, which is
then the causal triangle over the *oldest* keys; the implementation applies its own window."""
OPAQUE = "opaque"
"""Of any call of a function that is not the library's: what it does, with a mask or without, is not known."""


class Effect(NamedTuple):
    """A mask, and what holds in its place where it is None: one of the above, or None where all keys are
    visible. OPAQUE holds beside a mask, too.
    """

    mask: Any
    rule: str | None = None


def effect_of(kind: str, module: Any, q: int, k: int, mask: Any, kwargs: Mapping[str, Any]) -> Effect:
    """What becomes of a call with `q` queries and `k` keys, in a function of this kind (`probe_functions`).

    sdpa without a mask is causal for more than one query, aligned to the upper left: with more keys than
    queries it cuts keys and values to the first `q` (meant for an empty static cache, whose tail is unused).
    flash aligns to the lower right and knows the window itself. Everything else attends to all keys.
    """
    if kind == FOREIGN:
        return Effect(mask, OPAQUE)
    if mask is not None:
        return Effect(mask)
    if kind == FLASH:
        return Effect(None, CAUSAL if kwargs.get("sliding_window") is None else WINDOWED)
    if kind != SDPA or q <= 1 or not _causal(module, kwargs):
        return Effect(None)
    return Effect(None, OLDEST if k > q else CAUSAL)


def takes_boolean(kind: str) -> bool:
    """Whether a boolean mask is understood, and not added to the scores as 0 and 1."""
    return kind == SDPA


def _causal(module: Any, kwargs: Mapping[str, Any]) -> bool:
    given = kwargs.get("is_causal")
    return bool(getattr(module, "is_causal", True) if given is None else given)
