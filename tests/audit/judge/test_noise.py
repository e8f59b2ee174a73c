"""The noise floor: measured, put back, and bounded."""

import mlx.core as mx
import numpy as np
import pytest
from mlx.utils import tree_flatten

from mlxdiag.audit.judge import noise
from mlxdiag.models.mlx import zoo


@pytest.fixture(scope="module")
def instance():
    return zoo.tiny("llama")


def test_rounding_moves_the_logits_a_little_and_the_weights_are_put_back(instance):
    before = {name: np.array(value) for name, value in tree_flatten(instance.model.parameters())}
    measured = noise.floor(instance)
    assert 0 < measured < noise.FLOOR
    for name, value in tree_flatten(instance.model.parameters()):
        assert (np.array(value) == before[name]).all(), name


def test_it_follows_the_size_of_the_step(instance, monkeypatch):
    small = noise.floor(instance)
    monkeypatch.setattr(noise, "STEP", 1000 * noise.STEP)
    assert noise.floor(instance) == pytest.approx(1000 * small, rel=0.9)


def test_no_cache_or_mask_of_a_window_has_a_part_in_it(instance, monkeypatch):
    from mlx_lm.models import cache

    before = noise.floor(instance)
    blind = lambda self, n, **_: mx.zeros((n, n), mx.bool_) if n > 8 else "causal"  # noqa: E731
    monkeypatch.setattr(cache.RotatingKVCache, "make_mask", blind)
    assert noise.floor(instance) == before


@pytest.mark.parametrize(("measured", "allowed"), [(0.0, noise.FLOOR), (2e-5, 4e-4), (1.0, noise.CEILING)])
def test_the_tolerance_is_twenty_times_the_noise_within_bounds(measured, allowed):
    assert noise.tolerance(measured) == pytest.approx(allowed)


def test_a_silent_model_has_no_noise(instance, monkeypatch):
    monkeypatch.setattr(noise, "_logits", lambda *_: np.zeros((7, 4), np.float32))
    assert noise.floor(instance) == 0.0
