from __future__ import annotations

import pytest

from mlxdiag.bundle.reproduce.instances import Instances, others
from mlxdiag.errors import UnjudgedError
from mlxdiag.replay import experiment
from mlxdiag.traces.reader import parse


def prepared(architecture, tokens=3, backend="torch"):
    trace = parse(
        f"model: {{architecture: {architecture}}}\n"
        f"steps:\n- {{step: 1, phase: prefill, rows: [{{seq: a, offset: 0, tokens: {tokens}}}]}}\n"
    )
    return experiment.prepare(trace, source="t", backend=backend)


@pytest.fixture(scope="module")
def instances():
    return Instances()


def test_schedules_of_one_model_share_an_instance(instances):
    first = instances.of(prepared("llama", 3))
    assert instances.of(prepared("llama", 5)) is first
    assert instances.of(prepared("qwen3", 3)) is not first
    longest = first.vocab + 1
    assert instances.of(prepared("llama", longest)).vocab > longest


def test_another_attention_runs_within_and_the_own_one_is_back_after(instances):
    plan = prepared("llama")
    held = instances.of(plan)
    assert (held.attention, others(held)) == ("sdpa", ["eager"])
    with instances.attending(plan, "eager") as changed:
        assert changed.attention == held.model.config._attn_implementation == "eager"
    assert held.model.config._attn_implementation == "sdpa"
    with instances.attending(plan, None) as same:
        assert same is instances.of(plan)


def test_what_the_library_refuses_is_said_in_its_words(instances):
    plan = prepared("gpt_oss")
    assert others(instances.of(plan)) == ["sdpa"]
    with (
        pytest.raises(UnjudgedError, match="transformers refuses it: GptOssForCausalLM does not support"),
        instances.attending(plan, "sdpa"),
    ):
        pass


def test_a_library_without_such_a_choice_has_no_others(instances):
    assert others(instances.of(prepared("llama", backend="mlx"))) == []
