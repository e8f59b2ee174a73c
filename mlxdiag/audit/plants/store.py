"""Faults of the server's store of prompts: what it hands out, and how much of it counts as common."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from mlxdiag.audit.plants.bed import Bed


def entry_handed_out(bed: Bed) -> None:
    """The server's store of prompts hands out its entry itself, not a copy."""

    def wrap(original: Callable[..., Any]) -> Callable[..., Any]:
        def fetch_nearest_cache(store: Any, model: Any, tokens: Any) -> Any:
            with _uncopied():
                found = original(store, model, tokens)
            bed.note(found[0] is not None)
            return found

        return fetch_nearest_cache

    bed.method(("LRUPromptCache",), "fetch_nearest_cache", wrap)


def hit_counts_one_more(bed: Bed) -> None:
    """A hit in the server's store of prompts claims one token more than its cache holds."""

    def wrap(original: Callable[..., Any]) -> Callable[..., Any]:
        def fetch_nearest_cache(store: Any, model: Any, tokens: Any) -> Any:
            cache, rest = original(store, model, tokens)
            bed.note(cache is not None and len(rest) > 0)
            return cache, (rest[1:] if cache is not None else rest)

        return fetch_nearest_cache

    bed.method(("LRUPromptCache",), "fetch_nearest_cache", wrap)


def longer_entry_handed_out(bed: Bed) -> None:
    """A stored prompt that goes on otherwise is cut to what is common in the store itself, not in a copy."""

    def wrap(original: Callable[..., Any]) -> Callable[..., Any]:
        def fetch_nearest_cache(store: Any, model: Any, tokens: Any) -> Any:
            found = store._trie.search(model, tokens)
            longer = found.exact is None and found.longer is not None
            if not longer or found.common_prefix <= len(found.shorter or ()):
                return original(store, model, tokens)
            bed.note(True)
            with _uncopied():
                return original(store, model, tokens)

        return fetch_nearest_cache

    bed.method(("LRUPromptCache",), "fetch_nearest_cache", wrap)


def common_counts_one_more(bed: Bed) -> None:
    """The first token in which a prompt and a stored one differ counts as common."""

    def wrap(original: Callable[..., Any]) -> Callable[..., Any]:
        def search(trie: Any, model: Any, tokens: Any) -> Any:
            found = original(trie, model, tokens)
            if found.exact is None and found.longer is not None:
                bed.note(found.common_prefix < len(tokens) - 1)
                found.common_prefix = min(found.common_prefix + 1, len(found.longer))
            return found

        return search

    bed.method(("PromptTrie",), "search", wrap)


@contextmanager
def _uncopied() -> Iterator[None]:
    """Meanwhile a deep copy of a thing is the thing itself."""
    held = copy.deepcopy
    copy.deepcopy = lambda entry: entry  # type: ignore[assignment, misc]
    try:
        yield
    finally:
        copy.deepcopy = held
