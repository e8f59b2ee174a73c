"""What a replay writes of its forwards."""

from __future__ import annotations

from mlxdiag.models.mlx import zoo
from mlxdiag.models.mlx.instance import MlxInstance
from mlxdiag.replay import experiment
from mlxdiag.traces.types import Entry, Header, Row, Trace


def test_calls_over_keys_that_an_indexer_picked_are_left_out_and_those_of_plain_layers_stay() -> None:
    # Picked keys are fewer than are required, by design: 8 of 20 here.
    assert _attending("minimax_m3_vl") == [[0, 3]]
    assert _attending("deepseek_v32") == [[]]


def _attending(family: str) -> list[list[int]]:
    instance = zoo.tiny(family)
    assert isinstance(instance, MlxInstance)
    model = instance.geometry.model_entry(family)
    step = Entry(step=1, phase="prefill", rows=[Row(seq="a", offset=0, tokens=20)])
    prepared = experiment.prepare(Trace(Header(), [model, step]), source="test")
    (ran,) = experiment.run_policies(prepared, instance, ("strict",))
    steps = [entry for entry in ran.trace.entries if entry.phase == "prefill"]
    return [sorted(n for call in entry.attention or [] for n in call.layers or []) for entry in steps]
