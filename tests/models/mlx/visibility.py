"""Sequences fed under a visibility probe, and which of their queries see what they should not."""

from __future__ import annotations

from typing import Any

import mlx.core as mx
import numpy as np
from mlx_lm.models.cache import BatchKVCache, BatchRotatingKVCache, RotatingKVCache

from mlxdiag.models.mlx.attend import Attend
from mlxdiag.models.mlx.probe import Event, Feeding, Probe, StepEvent
from tests.models.mlx.forwards import instance
from tests.models.seeing import visible


class Driver:
    """Feeds sequences of distinct tokens under a visibility probe."""

    def __init__(self, family: str, attend: Attend | None = None, **kinds: Any) -> None:
        self.model = instance(family)
        self.told: list[Event] = []
        self.probe = Probe(self.told.append, "visibility", attend)
        self.probe.watch(self.model.model)
        self.cache = self.model.new_cache(kinds)

    def feed(self, positions: Any, seq: Any = (0,), real: Any = None, tokens: Any = None) -> StepEvent:
        """Positions [B, L]; the token of a position is the same in every sequence but shifted by 60."""
        positions = np.atleast_2d(np.array(positions))
        real = np.ones(positions.shape, bool) if real is None else np.array(real)
        if tokens is None:
            tokens = np.where(real, positions + 10 + 60 * np.array(seq)[:, None], 0)
        self.probe.feeding = Feeding(list(seq), positions, real)
        with self.probe:
            mx.eval(self.model.forward(tokens, self.cache))
        event = self.told[-1]
        assert isinstance(event, StepEvent)
        return event

    def chunks(self, schedule: tuple[int, ...], offset: int = 0) -> list[StepEvent]:
        steps = []
        for n in schedule:
            steps.append(self.feed(range(offset, offset + n)))
            offset += n
        return steps

    def required(self, layer: int | None, position: int) -> list[int]:
        spec = self.model.geometry.layer(layer if layer is not None else -1)
        assert spec is not None
        windowed = spec.attention == "sliding" and spec.softmax == "fused"
        return list(range(max(0, position - (spec.window or 0) + 1) if windowed else 0, position + 1))


def wrong(driver: Driver, step: StepEvent) -> dict[tuple[int | None, int], list[int]]:
    """Queries (layer, position) that see another set of positions than required, with what they see."""
    found = {}
    for event in step.attention:
        assert event.seen is not None
        for row, seq in enumerate(event.seen.query_seq.tolist()):
            for query, position in enumerate(event.seen.query_pos[row].tolist()):
                if event.seen.query_real[row, query]:
                    got = visible(event, row, query)
                    if got != [(seq, p) for p in driver.required(event.layer, position)]:
                        found[(event.layer, position)] = [p for _, p in got]
    return found


def batch_of(cache: Any, padding: list[int]) -> Any:
    if isinstance(cache, RotatingKVCache):
        return BatchRotatingKVCache(cache.max_size, padding)
    return BatchKVCache(padding)
