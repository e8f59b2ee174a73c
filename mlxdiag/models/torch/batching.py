"""What a program does to a transformers cache between forwards: batch, select, crop, copy.

Each function takes the list with one `Held` that `TorchInstance.new_cache` makes. Where the library has no
such operation, that is said and nothing is imitated.
"""

from __future__ import annotations

import copy
import io
from collections.abc import Mapping
from typing import Any

import numpy as np

from mlxdiag.errors import UnjudgedError
from mlxdiag.models.torch.held import Held

Caches = list[Any]


def merge(rows: list[Caches]) -> Caches:
    """A batch of rows that hold nothing yet, as `generate` begins one; or the one row that there is.

    Raises:
        UnjudgedError: a row that holds keys: the library joins none.
    """
    if len(rows) == 1:
        return rows[0]
    if any(fed(row) for row in rows):
        raise UnjudgedError(
            "transformers has no operation that joins caches which hold keys; continuous batching pages them"
        )
    return rows[0]


def pad_left(caches: Caches, left: list[int]) -> None:
    """Announce `left[i]` padding tokens in front of row i, with zeros in the attention mask."""
    (held,) = caches
    held.announce(np.arange(max(left))[None] >= np.array(left)[:, None])


def pad_right(caches: Caches, lengths: list[int], right: list[int]) -> None:
    """Announce `lengths[i]` real tokens of row i and then `right[i]` of padding, with zeros in the mask."""
    (held,) = caches
    width = max(length + more for length, more in zip(lengths, right, strict=True))
    # Behind left padding some of the real tokens are announced already.
    known = 0 if held.ahead is None else held.ahead.sum(axis=1)
    held.announce(np.arange(width)[None] < (np.array(lengths) - known)[:, None])


def keep_rows(caches: Caches, indices: list[int]) -> None:
    """Drop every row of a batch but these, in place."""
    import torch

    (held,) = caches
    held.cache.batch_select_indices(torch.tensor(indices, dtype=torch.long))
    held.keep(indices)


def extend(caches: Caches, others: Caches) -> None:
    """Append the rows of another batch, in place.

    Raises:
        UnjudgedError: always, where either of them holds keys.
    """
    merge([caches, others])


def extract(caches: Caches, row: int) -> Caches:
    """A copy of one row, its padding included."""
    copied = fork(caches)
    keep_rows(copied, [row])
    return copied


def fed(caches: Caches) -> bool:
    """Whether anything was appended."""
    (held,) = caches
    return bool(held.total)


def trim(caches: Caches, tokens: int) -> None:
    """Take `tokens` off the end of every layer, as `Cache.crop` does.

    Raises what the library raises where it cannot (a window that has rolled over without being recorded).
    """
    (held,) = caches
    held.cache.crop(-tokens)
    held.cut(tokens)


def trim_some(instance: Any, caches: Caches, tokens: int, kept: Mapping[str, int]) -> None:
    """As `trim`, but layers of a family give back `kept[family]` tokens less; "" is every family."""
    (held,) = caches
    for owner in instance.geometry.owners():
        left = kept.get(owner.family, kept.get("", 0))
        if left < tokens:
            held.cache.layers[owner.index].crop(left - tokens)
    held.cut(tokens - max(kept.values(), default=0))


def evict(caches: Caches, cap: int, sinks: int) -> None:
    """Drop the oldest keys of the layers that can, down to `cap`, behind at most `sinks` that stay."""
    (held,) = caches
    for layer in held.cache.layers:
        if hasattr(layer, "drop_front") and layer.live > cap:
            layer.drop_front(layer.live - cap, min(sinks, cap - 1))


def fork(caches: Caches) -> Caches:
    """An independent copy, as the library's documentation makes one of a prompt's cache."""
    return copy.deepcopy(caches)


def through_a_file(caches: Caches) -> Caches:
    """Save and load with `torch.save`, the way that there is: the library has no format of its own."""
    import torch

    (held,) = caches
    file = io.BytesIO()
    torch.save(held.cache, file)
    file.seek(0)
    # A pickle of this very process, never a foreign file.
    loaded = Held(torch.load(file, weights_only=False))
    loaded.mask, loaded.ahead = held.mask, held.ahead
    return [loaded]
