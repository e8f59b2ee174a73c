"""Keys of torch as words, for `models.content`."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from mlxdiag.models import content
from mlxdiag.models.content import Ints

_WORDS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


def row_hashes(keys: torch.Tensor) -> tuple[Ints, Ints]:
    """64-bit content hash of each key of [B, H, K, D], [B, K]; which are all 0. Reads the keys."""
    return content.hashes_of([_words(keys.transpose(1, 2))])


def number_nans(keys: torch.Tensor, first: int) -> tuple[torch.Tensor, int]:
    """As `content.number_nans`, of keys [B, H, L, D] themselves. Where no key has to change they are the same
    object.
    """
    words = _words(keys)
    numbered, following = content.number_nans(words, str(keys.dtype).removeprefix("torch."), first)
    if numbered is None:
        return keys, following
    plain = torch.from_numpy(numbered.view(_signed(numbered)))
    return plain.view(keys.dtype).to(keys.device), following


def as_numpy(array: torch.Tensor) -> Ints:
    """Any tensor, floats as float32: numpy has no bfloat16."""
    plain = array.detach()
    read: Ints = (plain.float() if plain.is_floating_point() else plain).cpu().numpy()
    return read


def _words(array: torch.Tensor) -> Ints:
    plain = array.detach().cpu().contiguous()
    words: Any = plain.view(_WORDS[plain.element_size()]).numpy()
    unsigned: Ints = words.view(f"u{words.dtype.itemsize}")
    return unsigned


def _signed(words: Ints) -> np.dtype[Any]:
    return np.dtype(f"i{words.dtype.itemsize}")
