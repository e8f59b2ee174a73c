"""The intervention: what a consumer does with a mask just before the attention call that uses it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import mlx.core as mx
import numpy as np

from mlxdiag.models.events import AttentionEvent


class Outcome(NamedTuple):
    """What the call is made with. `mask` may be a numpy array: boolean, or floats to be added to the
    scores.
    """

    keys: Any
    values: Any
    mask: Any
    fate: str | None = None
    """used, cropped, discarded, rebuilt or rejected."""
    fallback: str | None = None
    """windowed, causal, sliced or none."""


Attend = Callable[[AttentionEvent, Any, Any, Any, Any], tuple[Any, Any, Any, str | None, str | None]]
"""`attend(event, queries, keys, values, mask)` returns an Outcome. Queries [B, Hq, q, D], keys and values
[B, H, K, D] or quantised triples, mask as the call was given it. It may raise: the forward then fails
there.
"""


def as_mask(mask: Any, dtype: Any) -> Any:
    """A numpy mask as the library wants it: boolean as it is, floats in the dtype of the queries."""
    if not isinstance(mask, np.ndarray):
        return mask
    if mask.dtype == np.bool_:
        return mx.array(mask)
    return mx.array(mask.astype(np.float32)).astype(dtype)


def newest(array: Any, length: int) -> Any:
    """The last `length` keys or values of [B, H, K, D], or of each array of a quantised triple."""
    if isinstance(array, tuple | list):
        return tuple(newest(a, length) for a in array)
    return array[..., max(array.shape[2] - length, 0) :, :]


def slice_to_mask(event: AttentionEvent, _queries: Any, keys: Any, values: Any, mask: Any) -> Outcome:
    """The consumer of some dense sliding layers: keys longer than the mask are cut to its length, newest
    kept.
    """
    length = None if mask is None or isinstance(mask, str) else mask.shape[-1]
    if length is None or event.k_seen is None or length >= event.k_seen:
        return Outcome(keys, values, mask, "used")
    return Outcome(newest(keys, length), newest(values, length), mask, "used", "sliced")
