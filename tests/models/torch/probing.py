"""Sequences fed to tiny models under a visibility probe, and which queries see what they should not."""

from __future__ import annotations

from functools import cache as once
from typing import Any

import numpy as np
import torch
from transformers import DynamicCache

from mlxdiag.models.events import Event, Feeding, StepEvent
from mlxdiag.models.torch.attend import Attend
from mlxdiag.models.torch.instance import TorchInstance
from mlxdiag.models.torch.probe import Probe
from mlxdiag.models.torch.zoo import tiny
from tests.models.seeing import visible

W = 8
"""Window of every sliding layer."""


@once
def instance(family: str, attention: str | None = None) -> TorchInstance:
    built = tiny(family, attention=attention)
    assert isinstance(built, TorchInstance), built
    return built


class Driver:
    """Feeds sequences of distinct tokens to the model itself, as a program does, under a probe."""

    def __init__(
        self,
        family: str,
        attention: str | None = None,
        attend: Attend | None = None,
        level: str = "visibility",
        cache: Any = None,
    ) -> None:
        self.model = instance(family, attention)
        self.told: list[Event] = []
        self.probe = Probe(self.told.append, level, attend)
        self.probe.watch(self.model.model, self.model.geometry)
        self.cache = DynamicCache(config=self.model.model.config) if cache is None else cache

    def feed(
        self, positions: Any, seq: Any = (0,), real: Any = None, mask: Any = None, **more: Any
    ) -> StepEvent:
        """Positions [B, L]; the token of a position is the same in every sequence but shifted by 60. `mask`
        is the attention mask that the program passes, as lists.
        """
        positions = np.atleast_2d(np.array(positions))
        real = np.ones(positions.shape, bool) if real is None else np.array(real)
        tokens = np.where(real, positions + 10 + 60 * np.array(seq)[:, None], 0)
        if self.probe.level == "visibility":
            self.probe.feeding = Feeding(list(seq), positions, real)
        if mask is not None:
            given = mask if isinstance(mask, torch.Tensor | dict) else torch.tensor(mask)
            more["attention_mask"] = given
        with self.probe, torch.no_grad():
            self.model.model(input_ids=torch.from_numpy(tokens), cache=self.cache, **more)
        return self.step()

    def step(self) -> StepEvent:
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
        oldest = {
            "sliding": max(0, position - (spec.window or 0) + 1),
            "chunked": position // (spec.window or 1) * (spec.window or 1),
        }
        return list(range(oldest.get(spec.attention, 0), position + 1))


def wrong(driver: Driver, step: StepEvent) -> dict[tuple[int | None, int, int], list[tuple[int, int]]]:
    """Queries (layer, row, position) that see another set of positions than required, with what they see."""
    found = {}
    for event in step.attention:
        assert event.seen is not None, event
        for row, seq in enumerate(event.seen.query_seq.tolist()):
            for query, position in enumerate(event.seen.query_pos[row].tolist()):
                if event.seen.query_real[row, query]:
                    got = visible(event, row, query)
                    if got != [(seq, p) for p in driver.required(event.layer, position)]:
                        found[(event.layer, row, position)] = got
    return found
