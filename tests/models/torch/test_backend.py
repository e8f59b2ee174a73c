"""What stands between a replay and transformers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from mlxdiag.models.torch import zoo
from mlxdiag.models.torch.instance import TorchInstance


@pytest.fixture(scope="module")
def instance() -> TorchInstance:
    made = zoo.tiny("gemma3_text", device="cpu")
    assert isinstance(made, TorchInstance)
    return made


def weights(instance: TorchInstance) -> dict[str, Any]:
    return {name: value.detach().clone() for name, value in instance.model.named_parameters()}


def test_shaken_weights_are_up_or_down_by_the_step_and_then_those_of_before(instance: TorchInstance) -> None:
    before = weights(instance)
    with instance.backend.shaken(instance, 0.25, np.random.default_rng(1)):
        for name, value in weights(instance).items():
            moved = {float(ratio) for ratio in (value / before[name]).unique().round(decimals=4)}
            assert moved == {0.75, 1.25}, name
    after = weights(instance)
    assert all(torch.equal(after[name], value) for name, value in before.items())


def test_the_oldest_keys_are_dropped_down_to_the_cap_and_the_sinks_stay(instance: TorchInstance) -> None:
    backend = instance.backend
    caches = instance.new_cache({"full": lambda layer: backend.cache("front_trim", layer, 0, 2)})
    instance.forward(np.arange(5, 17)[None], caches)
    full = [layer for layer in caches[0].cache.layers if not layer.is_sliding]
    held = [layer.keys.clone() for layer in full]
    for cap, live in ((12, 12), (11, 11), (8, 8)):
        backend.evict(caches, cap, 2)
        assert [layer.live for layer in full] == [live] * len(full)
    for layer, keys in zip(full, held, strict=True):
        assert torch.equal(layer.keys, torch.cat([keys[..., :2, :], keys[..., 6:, :]], -2))
