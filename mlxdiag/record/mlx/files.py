"""Prompt caches in files: `save_prompt_cache` and `load_prompt_cache`."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

from mlxdiag.models.mlx.probe_tags import uids_of
from mlxdiag.record.mlx.prompt_caches import filled_by, held
from mlxdiag.record.origins import Origin
from mlxdiag.record.recorder import Recorder
from mlxdiag.traces.types import Entry, Row


def install(module: ModuleType, recorder: Recorder) -> None:
    """Tell of every save and load from now on. Must come before others import the two by value."""

    def saving(original: Callable[..., Any]) -> Callable[..., Any]:
        def save_prompt_cache(file_name: str, cache: Any, *args: Any, **kwargs: Any) -> Any:
            result = original(file_name, cache, *args, **kwargs)
            recorder.guarded(saved, recorder, cache)
            return result

        return save_prompt_cache

    def loading(original: Callable[..., Any]) -> Callable[..., Any]:
        def load_prompt_cache(*args: Any, **kwargs: Any) -> Any:
            result = original(*args, **kwargs)
            recorder.guarded(loaded, recorder, result)
            return result

        return load_prompt_cache

    recorder.patches.add(module, "save_prompt_cache", saving)
    recorder.patches.add(module, "load_prompt_cache", loading)


def saved(recorder: Recorder, cache: Any) -> None:
    names = recorder.names_of(uids_of(cache)) or []
    rows = [Row(seq=seq, offset=held(cache)) for seq in names]
    recorder.write(Entry(phase="save", model=filled_by(cache), rows=rows or None))


def loaded(recorder: Recorder, result: Any) -> None:
    """The result is the cache, or a pair of it and its metadata."""
    cache = result[0] if isinstance(result, tuple) else result
    seq = recorder.lineage.new_name()
    recorder.bind(uids_of(cache), [seq])
    recorder.origins.remember(uids_of(cache), Origin("load", seq))
