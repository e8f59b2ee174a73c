"""The intervention: what a consumer does with a mask just before the attention call that uses it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from mlxdiag.models.events import AttentionEvent

Attend = Callable[[AttentionEvent, Any, Any, Any, Any], tuple[Any, Any, Any, str | None, str | None]]
"""`attend(event, queries, keys, values, mask)` returns keys, values and mask to call with, the mask's fate
and the fallback. Queries [B, Hq, q, D], keys and values [B, H, K, D], mask as the call was given it; the
returned one may be a numpy array: boolean (True where a query sees a key), or floats to be added to the
scores. It may raise: the forward then fails there.
"""


def as_mask(mask: Any, queries: torch.Tensor, boolean: bool) -> Any:
    """A numpy mask as the implementation takes it, [B or 1, H or 1, q, K]: boolean where it may be, or floats
    in the dtype of the queries, of which the most negative one hides a key.
    """
    if not isinstance(mask, np.ndarray):
        return mask
    array = torch.from_numpy(np.ascontiguousarray(mask)).to(queries.device)
    while array.ndim < 4:
        # The batch of [B, q, K] stays in front; what is missing in a smaller one is added there.
        array = array[:, None] if array.ndim == 3 else array[None]
    if array.dtype == torch.bool:
        return array if boolean else torch.where(array, 0.0, torch.finfo(queries.dtype).min).to(queries.dtype)
    return array.to(queries.dtype)
