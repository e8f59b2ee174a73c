"""mlx-lm's store of prompt caches (`LRUPromptCache`): what was found, cut off, handed out, and put in.

A cache that is handed out is a copy; the sequence that then feeds it has adopted it. Read against
`mlx_lm/models/cache.py` of mlx-lm 0.32.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

from mlxdiag.models.mlx.probe_operations import event_of
from mlxdiag.models.mlx.probe_tags import tag_of, uids_of
from mlxdiag.record.origins import Origin
from mlxdiag.record.recorder import Recorder
from mlxdiag.traces.types import Entry, Row

Wrapper = Callable[..., Any]


class _Local(threading.local):
    cut: int | None = None
    """Tokens that the look-up in progress asked to be trimmed off its copy."""


def install(module: ModuleType, recorder: Recorder) -> None:
    """Follow every store of `mlx_lm.models.cache` from now on. Must come before others import by value."""
    store = Store(recorder)
    add = recorder.patches.add
    add(module, "trim_prompt_cache", store.trim)
    add(module.LRUPromptCache, "fetch_nearest_cache", store.fetch)
    add(module.LRUPromptCache, "insert_cache", store.insert)


class Store:
    """Makes the wrappers; one for each recorder."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self._local = _Local()

    def trim(self, original: Wrapper) -> Wrapper:
        def trim_prompt_cache(cache: Any, num_tokens: int) -> Any:
            self._local.cut = num_tokens
            done = original(cache, num_tokens)
            if num_tokens:
                self.recorder.guarded(self._asked, cache, num_tokens, done)
            return done

        return trim_prompt_cache

    def fetch(self, original: Wrapper) -> Wrapper:
        def fetch_nearest_cache(store: Any, model: Any, tokens: Any) -> Any:
            self._local.cut = None
            with self.recorder.unheard():
                found = original(store, model, tokens)
            self.recorder.guarded(self._fetched, found, len(tokens))
            return found

        return fetch_nearest_cache

    def insert(self, original: Wrapper) -> Wrapper:
        def insert_cache(store: Any, model: Any, tokens: Any, prompt_cache: Any, **kwargs: Any) -> Any:
            self.recorder.guarded(self._inserted, len(tokens), prompt_cache)
            return original(store, model, tokens, prompt_cache, **kwargs)

        return insert_cache

    def _asked(self, caches: Any, asked: int, done: int) -> None:
        """The library trims none where one would decline; its callers do not look, and go on as if it had."""
        for seq in self.recorder.names_of(uids_of(caches)) or []:
            self.recorder.debts.add(filled_by(caches), seq, asked)
        if done or all(cache.is_trimmable() for cache in caches):
            return
        for cache in members(caches):
            event = event_of("trim", tag_of(cache), cache)
            event.asked, event.done, event.after = asked, 0, event.before
            self.recorder.sink(event)

    def _fetched(self, found: Any, length: int) -> None:
        caches, rest = found
        if not caches:
            return
        matched, cut = length - len(rest), self._local.cut or 0
        seq = self.recorder.lineage.new_name()
        self.recorder.bind(uids_of(caches), [seq])
        self.recorder.origins.remember(uids_of(caches), Origin("adopt", seq, matched, matched + cut, cut))

    def _inserted(self, length: int, caches: Any) -> None:
        names = self.recorder.names_of(uids_of(caches)) or []
        rows = [Row(seq=seq, offset=held(caches), entry=length) for seq in names]
        self.recorder.write(Entry(phase="save", model=filled_by(caches), rows=rows or None))


def held(caches: Any) -> int:
    """Tokens in a prompt cache of one sequence, by the first cache that counts them; no array read."""
    offsets = (getattr(cache, "offset", None) for cache in members(caches))
    return next((offset for offset in offsets if isinstance(offset, int)), 0)


def filled_by(caches: Any) -> str | None:
    """The model that has run over these caches, as the events call it; by the first one that one has."""
    return next((tag_of(cache).model for cache in members(caches)), None)


def members(caches: Any) -> Iterator[Any]:
    """Each cache of a prompt cache, those of a compound one by one."""
    for cache in caches or ():
        yield from getattr(cache, "caches", (cache,))
