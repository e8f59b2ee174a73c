"""What a recorded server does, as a script does it, against the replay that found the fault."""

from types import SimpleNamespace

import mlx.core as mx
import numpy as np
import pytest

from mlxdiag.audit.repro import caller
from mlxdiag.replay import experiment, masks, misfit
from mlxdiag.replay.consumer import Consumer
from mlxdiag.traces.reader import read
from tests.samples.expected import FOLDER

POLICIES = [policy for policy in misfit.POLICIES if policy != "strict"]


@pytest.fixture(scope="module")
def recorded():
    """A plan with masks of its scheduler, and an instance of its model."""
    prepared = experiment.prepare(read(FOLDER / "gemma3-one-pass.yaml"), source="sample")
    return prepared.plan, experiment.instance_for(prepared, seed=0)


def test_a_policy_of_its_own_is_written_only_where_masks_are_handed_in(recorded):
    plan, instance = recorded
    assert sorted(caller.BODIES) == sorted(POLICIES)
    assert list(caller.consumer("strict", plan, instance)) == []
    windows, _ = caller.consumer("rebuild", plan, instance)
    assert windows.startswith("WINDOWS = {0: ")


@pytest.mark.parametrize("window", [None, 4])
@pytest.mark.parametrize(("k", "m"), [(9, 6), (9, 7), (3, 2), (6, 9), (3, 5)])
@pytest.mark.parametrize("policy", POLICIES)
def test_a_mask_that_does_not_fit_is_treated_as_in_the_replay(monkeypatch, recorded, policy, k, m, window):
    seen = []
    monkeypatch.setattr(
        mx.fast, "scaled_dot_product_attention", lambda *given, mask: seen.append((*given, mask))
    )
    script = {"mx": mx}
    exec("\n".join(caller.consumer(policy, *recorded)), script)
    script["Layer"].window = window
    queries, keys, values = (mx.random.normal((1, 1, length, 8)) for length in (3, k, k))
    mask = mx.where(mx.random.normal((3, m)) > 0, 0.0, -mx.inf)
    attend = script["attention_with_misfits"]
    try:
        decision = misfit.decide(policy, q=3, k=k, m=m, window=window)
    except misfit.GuardRaised:
        with pytest.raises(ValueError, match="shorter"):
            attend(queries, keys, values, mask=mask)
        return
    attend(queries, keys, values, mask=mask)
    consumer = Consumer(policy, recorded[1].geometry, recorded[1].backend)
    due = consumer._carry_out(decision, queries, keys, values, mask)[:3]
    ((_, *given),) = seen
    for one, other in zip(given, due, strict=True):
        assert (one is None) == (other is None)
        assert one is None or np.array_equal(np.array(one), np.array(other))


@pytest.mark.parametrize("offset", [0, 2, 9])
@pytest.mark.parametrize("builder", masks.BUILDERS)
def test_masks_are_built_as_in_the_replay(builder, offset):
    family = SimpleNamespace(create_attention_mask=None)
    script = {"mx": mx, "text_family": family}
    exec(caller.MASKS, script)
    assert family.create_attention_mask is script["mask_of_the_scheduler"]
    q, width = 5, 4
    due = np.where(masks.build(builder, q, offset, real=3, width=width), 0, -np.inf)
    h = mx.zeros((1, q, 8))
    given = script["built"](h, None, builder, offset, q, due.shape[1], real=3, window=width)
    assert np.array_equal(np.array(given), due)
