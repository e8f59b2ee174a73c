"""What a script does in place of the recorded program, against the replay that it was found with."""

from __future__ import annotations

import types

import numpy as np
import pytest
import torch

from mlxdiag.audit.repro.transformers import caller
from mlxdiag.models.torch import layers
from mlxdiag.replay import masks, misfit


def names(attention="sdpa", policy="rebuild", windows=None):
    """The names that a script would define."""
    held = {"torch": torch, "ATTENTION": attention, "WINDOWS": windows or {}, "Any": object}
    text = caller.INTERFACE.format(fitted="", builders="\n\n".join(caller.BUILDERS.values()))
    body = "\n".join("    " + line for line in caller.BODIES[policy])
    held["AttentionInterface"] = types.SimpleNamespace(get_interface=None)
    consumer = caller.CONSUMER.replace("{policy}", policy).replace("{body}", body)
    exec(text + "\n\n" + consumer, held)
    return held


@pytest.mark.parametrize("q", [1, 3, 5])
@pytest.mark.parametrize("offset", [0, 2, 6])
def test_masks_are_those_of_the_replay(q, offset):
    made = names()
    for builder, more in (("causal", ()), ("padded", (2,)), ("window", (4,)), ("capped", (4,))):
        own = made[builder](q, offset, *more).numpy()
        expected = masks.build(builder, q, offset, real=2, width=4)
        assert np.array_equal(own, expected), builder


def test_a_mask_has_the_form_of_its_implementation():
    query, key = torch.zeros(1, 2, 3, 4), torch.zeros(1, 2, 5, 4)
    sees = torch.ones(3, 5, dtype=torch.bool).tril(2)
    assert names()["as_given"](sees, query, key).dtype is torch.bool
    eager = names("eager")["as_given"]("causal", query, key)
    assert torch.equal(eager[0, 0] == 0, sees)
    assert eager.min() == torch.finfo(torch.float32).min
    assert names()["as_given"](None, query, key) is None


@pytest.mark.parametrize("policy", [one for one in misfit.POLICIES if one != "strict"])
@pytest.mark.parametrize("m", [4, 7])
@pytest.mark.parametrize("window", [3, None])
def test_a_misfit_is_treated_as_in_the_replay(policy, m, window):
    q, k = 2, 5
    made = names(policy=policy, windows={0: window} if window else {})
    query, mask = torch.zeros(1, 1, q, 1), torch.arange(q * m).reshape(1, 1, q, m) % 3 > 0
    key = torch.arange(k, dtype=torch.float32).reshape(1, 1, k, 1)
    module = types.SimpleNamespace(layer_idx=0)
    try:
        decided = misfit.decide(policy, q=q, k=k, m=m, window=window)
    except misfit.GuardRaised:
        with pytest.raises(made["Guard"]):
            made["fitted"](module, query, key, key, mask)
        return
    keys, values, own = made["fitted"](module, query, key, key, mask)
    assert torch.equal(keys, values)
    start, stop = decided.keys or (0, k)
    assert keys.flatten().tolist() == list(range(start, stop))
    if decided.unmasked:
        assert own is None
    elif decided.mask is not None:
        assert np.array_equal(own[0, 0].numpy(), decided.mask)
    else:
        first, last = decided.mask_columns or (0, m)
        assert torch.equal(own, mask[..., first:last])


def test_layers_that_the_library_lacks_are_written_whole():
    text = caller._source(layers.ClampedSlidingLayer)
    assert "type: ignore" not in text
    assert "keys: Any" not in text
    held = {"torch": torch, "DynamicSlidingWindowLayer": layers.DynamicSlidingWindowLayer, "Any": object}
    exec(text, held)
    layer = held["ClampedSlidingLayer"](4)
    keys = torch.zeros(1, 1, 3, 2)
    assert [layer.update(keys, keys)[0].shape[2] for _ in range(3)] == [3, 4, 4]
