"""The digest level: how many keys the first and the last query of each mask see, and where those lie.

Two sums over two rows of the mask, built lazily: a few more outputs of the same graph, evaluated with it and
read only when that is done. Masks are shared by the layers of a kind, so a step has one or two of them.
"""

from __future__ import annotations

from typing import Any

import mlx.core as mx

from mlxdiag.models.events import AttentionEvent
from mlxdiag.models.identity import BLOCKED
from mlxdiag.models.mlx.probe_frame import Frame


class DigestWatcher:
    """Takes the place of the watcher that reads keys; it changes nothing and reads nothing."""

    def inserting(self, frame: Frame, event: AttentionEvent, cache: Any, keys: Any) -> Any:
        return keys

    def returned(self, frame: Frame, keys_and_values: Any) -> Any:
        return keys_and_values

    def entering(self, frame: Frame) -> tuple[tuple[Any, ...], dict[str, Any]]:
        return frame.args, frame.kwargs

    def attending(
        self, frame: Frame, event: AttentionEvent, queries: Any, keys: Any, values: Any, mask: Any
    ) -> tuple[Any, Any, Any]:
        event.digest = noted(frame, mask)
        return keys, values, mask

    def left(self, frame: Frame) -> None:
        """Layers whose softmax is computed by hand: their mask is their own argument."""
        if frame.attended or not frame.pending:
            return
        number = noted(frame, frame.given_mask())
        for event in frame.pending:
            event.digest = number


def noted(frame: Frame, mask: Any) -> int | None:
    """Place of the mask's digest in the step's list; None for what is no array of queries and keys."""
    if not isinstance(mask, mx.array) or mask.ndim < 2:
        return None
    for place, (held, _) in enumerate(frame.step.digests):
        if held is mask:
            return place
    frame.step.digests.append((mask, digest(mask)))
    return len(frame.step.digests) - 1


def digest(mask: mx.array) -> mx.array:
    """Of a mask [..., q, K]: int32 [B or 1, 2, 2], for the first and the last query the count of visible keys
    and the sum of their columns. Of several heads one is taken.
    """
    rows = mx.stack([mask[..., 0, :], mask[..., -1, :]], axis=-2)
    while rows.ndim > 3:
        rows = rows[:, 0]
    rows = rows[None] if rows.ndim == 2 else rows
    seen = rows if rows.dtype == mx.bool_ else rows.astype(mx.float32) > BLOCKED
    columns = mx.arange(mask.shape[-1], dtype=mx.int32)
    return mx.stack([seen.sum(axis=-1), (seen * columns).sum(axis=-1)], axis=-1).astype(mx.int32)


def evaluated_with(result: Any, digests: list[tuple[Any, Any]]) -> Any:
    """The forward's result, so that whoever evaluates it evaluates the digests too."""
    if not digests or not isinstance(result, mx.array):
        return result
    return mx.depends(result, [lazy for _, lazy in digests])
