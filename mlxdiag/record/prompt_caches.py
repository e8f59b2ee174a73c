"""mlx-lm's store of prompt caches (`LRUPromptCache`): what was found, cut off, handed out, and put in.

A cache that is handed out is a copy; the sequence that then feeds it has adopted it. Read against
`mlx_lm/models/cache.py` of mlx-lm 0.32.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import ModuleType
from typing import Any

import msgspec

from mlxdiag.models.mlx.probe_tags import tag_of, uids_of
from mlxdiag.record.recorder import Recorder
from mlxdiag.traces.types import Entry, Row

ATTRIBUTE = "_mlxdiag_adoption"
"""Of the first cache of a prompt cache that was handed out; a copy of it carries one that is not its own."""

Wrapper = Callable[..., Any]


class Adoption(msgspec.Struct, frozen=True):
    """Lengths count tokens."""

    uid: int
    matched: int
    entry: int
    trimmed: int


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
            return original(cache, num_tokens)

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

    def _fetched(self, found: Any, length: int) -> None:
        caches, rest = found
        uids = uids_of(caches)
        if not uids:
            return
        matched, cut = length - len(rest), self._local.cut or 0
        first = next(_members(caches))
        first.__dict__[ATTRIBUTE] = Adoption(uids[0], matched, matched + cut, cut)

    def _inserted(self, length: int, caches: Any) -> None:
        names = self.recorder.names_of(caches) or []
        rows = [Row(seq=seq, offset=held(caches), entry=length) for seq in names]
        self.recorder.write(Entry(phase="save", model=_model(caches), rows=rows or None))


def adopt(recorder: Recorder, seq: str, caches: Any, matched: int, *models: Any) -> None:
    """Write that `seq` goes on from what these caches hold: from a store where they come from one, else
    from `matched` tokens that the scheduler knows of.

    `models`: those whose caches these are, in turn.
    """
    first = next(_members(caches))
    adoption = first.__dict__.pop(ATTRIBUTE, None)
    uids = uids_of(caches)
    for model in models:
        part = caches[: _count(model)] if len(models) > 1 else caches
        caches = caches[len(part) :]
        holding = held(part)
        row = Row(seq=seq, matched=matched, entry=holding, trimmed=0, restored=holding)
        if adoption is not None and adoption.uid == uids[0]:
            row = msgspec.structs.replace(
                row, matched=adoption.matched, entry=adoption.entry, trimmed=adoption.trimmed
            )
        recorder.write(Entry(phase="adopt", model=_model(part) or recorder.name_of(model), rows=[row]))


def held(caches: Any) -> int:
    """Tokens in a prompt cache of one sequence, by the first cache that counts them; no array read."""
    offsets = (getattr(cache, "offset", None) for cache in _members(caches or ()))
    return next((offset for offset in offsets if isinstance(offset, int)), 0)


def _members(caches: Any) -> Any:
    for cache in caches:
        yield from getattr(cache, "caches", (cache,))


def _model(caches: Any) -> str | None:
    """The model that has filled these caches, as the events call it."""
    first = next(_members(caches), None)
    return tag_of(first).model if first is not None else None


def _count(model: Any) -> int:
    return len(model.layers)
