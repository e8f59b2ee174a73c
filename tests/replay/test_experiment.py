"""What stands between a trace and a model: the geometry, the windows, the family, the checkpoint."""

import json

import pytest

from mlxdiag.errors import UnjudgedError, UnreadableError
from mlxdiag.replay import experiment
from mlxdiag.traces.reader import parse
from tests.replay.traces import trace

STEP = '{"step": 1, "rows": [{"seq": "a", "offset": 0, "tokens": 12}]}'


def headed(model: str):
    return parse(f"schema: mlxdiag.trace/1\nmodel: {model}\nsteps:\n- {STEP}\n")


def test_the_traces_window_replaces_the_catalogues():
    prepared = experiment.prepare(trace(STEP, "gemma3_text"), source="t")
    assert prepared.families["sliding"].window == 8
    instance = experiment.instance_for(prepared)
    assert {layer.window for layer in instance.geometry.layers} == {8, None}


def test_a_wrappers_config_reaches_its_text_model():
    prepared = experiment.prepare(headed("{architecture: gemma3, config: {sliding_window: 16}}"), source="t")
    assert prepared.config["text_config"]["sliding_window"] == 16
    assert prepared.families["sliding"].window == 16


def test_a_family_that_nobody_knows_is_unjudged_and_names_the_way_out():
    with pytest.raises(UnjudgedError, match="--model DIR"):
        experiment.prepare(headed("{architecture: nosuch}"), source="t")


@pytest.mark.parametrize("name", ["diffusion_gemma", "baichuan"])
def test_a_family_that_the_library_lacks_is_unjudged_with_its_reason(name):
    config = {"model_type": name, "num_hidden_layers": 2}
    with pytest.raises(UnjudgedError, match=name):
        experiment.require_family(headed(f"{{architecture: {name}}}"), config)


def test_a_checkpoint_directory_without_weights_is_unreadable(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "llama", "num_hidden_layers": 2}))
    prepared = experiment.prepare(trace(STEP, "llama"), source="t")
    with pytest.raises(UnreadableError, match=r"weights|safetensors"):
        experiment.instance_for(prepared, model_dir=tmp_path)


def test_equal_seeds_give_equal_runs():
    prepared = experiment.prepare(trace(STEP, "gpt_oss"), source="t")
    first, second = (
        experiment.run_policies(prepared, experiment.instance_for(prepared), ("strict",))[0].trace.entries
        for _ in range(2)
    )
    assert first == second


def test_a_half_precision_checkpoint_is_computed_in_float32_and_says_so(tmp_path):
    import mlx.core as mx
    from mlx.utils import tree_flatten

    from mlxdiag.models import catalogue
    from mlxdiag.models.configs.directory import read_config
    from mlxdiag.models.mlx import tiny

    built = tiny.build(catalogue.config("gemma3_text"), window=8, dtype="bfloat16")
    mx.save_safetensors(str(tmp_path / "model.safetensors"), dict(tree_flatten(built.model.parameters())))
    (tmp_path / "config.json").write_text(json.dumps(built.config))
    chunks = f'{STEP}\n{{"step": 2, "rows": [{{"seq": "a", "offset": 12, "tokens": 9}}]}}'
    prepared = experiment.prepare(trace(chunks), source="t", config=read_config(tmp_path))
    instance = experiment.instance_for(prepared, model_dir=tmp_path)
    assert "weights stored in bfloat16 are computed in float32" in instance.geometry.notes
    ran = experiment.run_policies(prepared, instance, ("strict",))[0]
    assert ran.report.findings == []
    assert ran.outcome.compared == 21


def test_a_checkpoint_runs_with_its_own_window_and_says_where_the_trace_had_another():
    from mlxdiag.models import catalogue

    config = {**catalogue.config("gemma3_text"), "sliding_window": 16}
    prepared = experiment.prepare(trace(STEP, "gemma3_text"), source="t", config=config)
    assert prepared.families["sliding"].window == 16
    assert prepared.plan.notes == ("sliding layers: the checkpoint's window of 16 is run, the trace's was 8",)


def test_a_trace_that_holds_a_whole_config_needs_no_catalogue():
    from mlxdiag.audit.schedules import schedules
    from mlxdiag.models.mlx import zoo

    built = schedules.build("fresh-over-window", zoo.tiny("kimi_vl"))
    prepared = experiment.prepare(built, source="t.yaml")
    ran = experiment.run_policies(prepared, experiment.instance_for(prepared), ("strict",))[0]
    assert ran.outcome.compared == sum(row.tokens for entry in built.entries for row in entry.rows)


@pytest.mark.parametrize(
    ("config", "kind", "said"),
    [
        (
            "{rope_scaling: {rope_type: zzz}}",
            UnjudgedError,
            "t.yaml: a tiny llama cannot be built: ValueError: ",
        ),
        (
            "{num_hidden_layers: -1}",
            UnreadableError,
            "t.yaml: model.config: config of llama: num_hidden_layers is -1",
        ),
        (
            "{text_config: 3}",
            UnreadableError,
            "t.yaml: model.config: config field text_config must be an object",
        ),
    ],
)
def test_a_config_that_no_model_can_be_built_from_names_the_file_that_it_stands_in(config, kind, said):
    steps = "steps:\n- {step: 1, rows: [{seq: a, offset: 0, tokens: 4}]}\n"
    loaded = parse(f"schema: mlxdiag.trace/1\nmodel: {{architecture: llama, config: {config}}}\n{steps}")
    with pytest.raises(kind) as caught:
        experiment.instance_for(experiment.prepare(loaded, source="t.yaml"))
    assert str(caught.value).startswith(said)
