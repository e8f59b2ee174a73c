"""What a program's cache object is made of, as events name it."""

from __future__ import annotations

from typing import Any

from transformers import cache_utils

from mlxdiag.models.torch.probe import Probe
from mlxdiag.models.torch.probe_tags import tag_of, uids_of


class Caches:
    """Looks at caches of one probe. A copy that nobody has used yet is announced by the look."""

    def __init__(self, probe: Probe) -> None:
        self._probe = probe

    def uids(self, cache: Any) -> list[int]:
        """Of its layers."""
        return uids_of(cache, self._probe.copied)

    def held(self, cache: Any) -> int:
        """Tokens in it, by the first layer that counts them without a tensor; 0 where none does."""
        layers = cache.layers if isinstance(cache, cache_utils.Cache) else ()
        for index, layer in enumerate(layers):
            offset = tag_of(layer, index, self._probe.copied).offset_of(layer)
            if isinstance(offset, int):
                return offset
        return 0
