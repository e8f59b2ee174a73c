"""Tiny models of the library, and forwards of them under the probe."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache as once
from typing import Any

import mlx_lm.models.cache as library_caches
import numpy as np

from mlxdiag.models import catalogue
from mlxdiag.models.mlx import tiny
from mlxdiag.models.mlx.instance import MlxInstance
from mlxdiag.models.mlx.probe import Probe, StepEvent

W = 8
"""Window of every sliding layer."""


@once
def instance(family: str) -> MlxInstance:
    built = tiny.build(catalogue.config(family), window=W, positions=64)
    assert isinstance(built, MlxInstance), built
    return built


def ids(offset: int, n: int, rows: int = 1) -> np.ndarray[Any, Any]:
    return np.arange(n)[None] + offset + 10 + 40 * np.arange(rows)[:, None]


def run(family: str, schedule: tuple[int, ...], level: str = "shapes", cache: Any = None) -> list[StepEvent]:
    model, told, offset = instance(family), [], 0
    cache = model.new_cache() if cache is None else cache
    with Probe(told.append, level) as probe:
        probe.watch(model.model)
        for n in schedule:
            model.forward(ids(offset, n), cache)
            offset += n
    return [event for event in told if isinstance(event, StepEvent)]


def type_of(cache: Any) -> Callable[[list[int]], Any]:
    window = getattr(cache, "max_size", None)
    if window is None:
        return library_caches.BatchKVCache
    return lambda padding: library_caches.BatchRotatingKVCache(window, padding)
