"""The same schedules where a GPU computes: what is attended must be the same to the bit; logits are printed.

Skipped, with the reason, on machines without one. Float tolerance on GPUs is not measured yet, so parity is only
asked to be finite there.
"""

import numpy as np
import pytest

from mlxdiag.models.adapter import Skipped
from mlxdiag.models.mlx import devices
from mlxdiag.replay import experiment
from tests.replay.schedules import HEALTHY, OFFSET_ZERO
from tests.replay.traces import trace

FOUND = devices.devices()
GPUS = [] if isinstance(FOUND, Skipped) else [d for d in FOUND if d.name != "cpu"]


@pytest.fixture(params=[d.name for d in GPUS] or ["none"])
def gpu(request):
    if request.param == "none":
        pytest.skip("no Metal or CUDA device is known to the installed mlx")
    device = next(d for d in GPUS if d.name == request.param)
    if not device.works:
        pytest.skip(f"{device.name} does not compute here: {device.reason}")
    import mlx.core as mx

    before = mx.default_device()
    devices.use(device.name)
    yield device.name
    mx.set_default_device(before)


def run(steps: str, policy: str):
    prepared = experiment.prepare(trace(steps), source="t")
    instance = experiment.instance_for(prepared)
    return instance, experiment.run_policies(prepared, instance, (policy,))[0]


@pytest.mark.parametrize("name", HEALTHY)
def test_a_healthy_schedule_attends_the_required_positions_on_a_gpu(gpu, name):
    instance, ran = run(HEALTHY[name], "strict")
    assert instance.device == gpu
    assert (ran.outcome.empty, ran.outcome.wrong_window, ran.outcome.padding) == (0, 0, 0)
    assert ran.outcome.max_abs is not None
    assert np.isfinite(ran.outcome.max_abs)
    print(f"{gpu}: {name}: {ran.outcome.max_abs:.2g} of tolerance {ran.outcome.tolerance:.2g}")


@pytest.mark.parametrize("policy", ["strict", "discard:causal", "crop:new"])
def test_a_misfit_is_seen_on_a_gpu(gpu, policy):
    _, ran = run(OFFSET_ZERO, policy)
    assert ran.outcome.crash is not None or ran.outcome.wrong_window > 0
