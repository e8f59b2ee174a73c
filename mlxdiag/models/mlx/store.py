"""The prompt cache of mlx-lm's server between requests: the library's own, asked as the server asks it."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Ids = NDArray[np.int32]
Caches = list[Any]

MODEL = "replayed"
"""The trie keeps models apart by name; a replay has one."""


class Store:
    """Stateful: a server's `LRUPromptCache`."""

    def __init__(self) -> None:
        from mlx_lm.models.cache import LRUPromptCache

        self._trie = LRUPromptCache()

    def insert(self, ids: Ids, caches: Caches) -> None:
        """A request is over: its caches themselves go in, under the tokens that they hold."""
        self._trie.insert_cache(MODEL, ids.tolist(), caches)

    def begin(self, model: Any, prompt: Ids, caches: Caches) -> None:
        """A request whose prompt ends with what `caches` hold, handed on as the server's threads hand it on:
        to its batch, or to a generation of its own where its caches cannot be batched.

        Raises whatever the library raises there.
        """
        import mlx.core as mx
        from mlx_lm.generate import BatchGenerator, generate_step

        if all(hasattr(cache, "merge") for cache in caches):
            batch = BatchGenerator(model)
            try:
                # Segments that the stored prefix covers are dropped one by one: here that is all of them.
                batch.insert_segments([[]], caches=[caches], all_tokens=[prompt.tolist()])
            finally:
                batch.close()
        else:
            next(generate_step(mx.array([], mx.uint32), model, prompt_cache=caches))

    def fetch(self, ids: Ids) -> tuple[Caches | None, int]:
        """What a request for these tokens is given, and how many of them it holds; None and 0 for nothing."""
        caches, rest = self._trie.fetch_nearest_cache(MODEL, ids.tolist())
        return caches, len(ids) - len(rest) if caches is not None else 0
