"""Identity read once a forward gives what identity read at once gives."""

import msgspec
import numpy as np
import pytest

from mlxdiag.audit.judge.judge import prepare
from mlxdiag.audit.schedules.scenarios import named
from mlxdiag.models.mlx import zoo
from mlxdiag.models.mlx.identity import Identity
from mlxdiag.models.mlx.identity_deferred import DeferredIdentity
from mlxdiag.models.mlx.probe import StepEvent
from mlxdiag.replay.run import Runner


class Settling(Runner):
    """Settles after each forward where the identity asks for it."""

    def _run_model(self, op, group, ids):
        ran = super()._run_model(op, group, ids)
        if isinstance(self.probe.identity, DeferredIdentity):
            self.probe.identity.settle()
        return ran


@pytest.mark.parametrize(
    ("family", "scenario"),
    [
        ("gemma3_text", "continue-after-wrap"),
        ("gemma3_text", "ragged-batch"),
        ("gemma3n", "decode-across-window"),
        ("longcat_flash", "chunks-below-window"),
        ("mixtral", "quantized-keys"),
    ],
)
def test_both_see_the_same(family, scenario):
    instance = zoo.tiny(family)
    setting = prepare(instance, named(scenario))
    seen = []
    for identity in (Identity(), DeferredIdentity()):
        runner = Settling(instance, setting.plan, setting.prompts, "strict", identity=identity)
        seen.append([msgspec.to_builtins(entry) for entry in runner.run().entries])
    assert seen[0] == seen[1]
    assert any(call.get("visible") for entry in seen[0] for call in entry.get("attention", ()))


def test_a_call_that_folds_rows_into_tokens_is_not_read():
    instance = zoo.tiny("deepseek_v41")
    setting = prepare(instance, named("fresh-within-window"))
    identity = DeferredIdentity()
    runner = Settling(instance, setting.plan, setting.prompts, "strict", identity=identity)
    trace = runner.run()
    assert runner.stopped is None
    assert all(call.visible is None for entry in trace.entries for call in entry.attention or [])


def test_nothing_is_evaluated_before_it_settles():
    instance = zoo.tiny("llama")
    setting = prepare(instance, named("fresh-within-window"))
    identity = DeferredIdentity()
    runner = Runner(instance, setting.plan, setting.prompts, "strict", identity=identity)
    trace = runner.run()
    assert all(call.visible is None for entry in trace.entries for call in entry.attention or [])
    assert identity.arrays()
    identity.settle()
    assert not identity.arrays()
    events = [event for event in runner.events if isinstance(event, StepEvent)]
    seen = [call.seen for event in events for call in event.attention]
    assert all(view is not None and np.array(view.mask).any() for view in seen)
