"""What stands between a replay and transformers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from mlxdiag.models.torch import checkpoint, zoo
from mlxdiag.models.torch.instance import TorchInstance
from tests.record.torch import models


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


def threads_within(instance: TorchInstance) -> tuple[int, int]:
    """Of torch, while an instance runs and afterwards, where there were three before."""
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        with instance.backend.in_few_threads(instance):
            within = torch.get_num_threads()
        return within, torch.get_num_threads()
    finally:
        torch.set_num_threads(before)


def test_a_tiny_instance_runs_on_one_thread_and_a_checkpoint_on_all_there_were(
    instance: TorchInstance, tmp_path: Path
) -> None:
    assert threads_within(instance) == (1, 3)
    real = checkpoint.load(models.save(tmp_path / "real"))
    assert threads_within(real) == (3, 3)
