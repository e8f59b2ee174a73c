"""The shipped stories on transformers' own model code: judged as on mlx-lm, save for what torch does otherwise."""

import pytest

pytest.importorskip("torch", reason="no torch: pip install 'mlxdiag[torch]'")

from mlxdiag.errors import UnjudgedError
from mlxdiag.inspect.findings import codes
from mlxdiag.models import catalogue
from mlxdiag.replay import experiment
from mlxdiag.replay.run import Runner
from mlxdiag.replay.show import replay_report
from mlxdiag.traces.reader import parse, read
from tests.replay.schedules import HEALTHY
from tests.replay.traces import trace
from tests.samples.expected import FOLDER, SAMPLES

STEP = '{"step": 1, "rows": [{"seq": "a", "offset": 0, "tokens": 12}]}'
SILENT = {"MD401"}
"""A query without keys is no NaN on transformers: sdpa gives zeros, a softmax by hand the mean of the values."""
CRASHES = {
    "gpt-oss-one-pass": "The size of tensor a (298) must match the size of tensor b (128)",
    "qwen3-key-cap": "The size of tensor a (1536) must match the size of tensor b (2048)",
    "gemma3-decode-growth": "The size of tensor a (308) must match the size of tensor b (563)",
}
ELSEWHERE = ("baichuan_m1",)
"""Families that transformers has no code for."""
FAULTS = {"recurrent_gemma": {"MD402"}}
"""What the library itself does wrong: a second chunk of several tokens begins its convolution anew."""


def run(loaded, source="t.yaml"):
    prepared = experiment.prepare(loaded, source=source, backend="torch")
    instance = experiment.instance_for(prepared, device="cpu")
    return experiment.run_policies(prepared, instance, (prepared.plan.misfit,))[0]


def found(report):
    return codes(finding for finding in report.findings if finding.severity != "info")


@pytest.mark.parametrize("name", SAMPLES)
def test_a_faulty_sample_is_judged_as_on_the_other_library(name):
    sample = SAMPLES[name]
    ran = run(read(FOLDER / f"{name}.yaml"), name)
    assert found(ran.report) == sample.replayed - SILENT
    assert sum(step.empty for step in ran.outcome.steps) == sample.empty
    if sample.crash is not None:
        assert CRASHES[name] in ran.trace.entries[-2].error.text


@pytest.mark.parametrize("name", ["gemma3n-chunked", "gemma4-speculative-verify", "gpt-oss-one-pass"])
def test_its_healthy_twin_is_clean(name):
    ran = run(read(FOLDER / f"{name}-healthy.yaml"), name)
    assert found(ran.report) == set()
    assert sum(step.compared for step in ran.outcome.steps) > 10


ALONE = [name for name, steps in HEALTHY.items() if '"b"' not in steps]


@pytest.mark.parametrize("architecture", ["gemma3_text", "gpt_oss"])
@pytest.mark.parametrize("name", ALONE)
def test_a_healthy_schedule_is_clean_by_visibility_and_parity(name, architecture):
    ran = run(trace(HEALTHY[name], architecture, ""))
    assert found(ran.report) == set()
    assert sum(step.compared for step in ran.outcome.steps) > 0


def test_drafts_are_taken_back_after_the_window_has_rolled_over():
    """Told beforehand, a sliding layer keeps the keys that a rollback needs; else the library refuses it."""
    steps = """
        {"step": 1, "rows": [{"seq": "a", "offset": 0, "tokens": 20}]}
        {"step": 2, "phase": "verify", "rows": [{"seq": "a", "offset": 20, "tokens": 4}]}
        {"step": 3, "phase": "rollback", "rows": [{"seq": "a", "asked": 2, "done": 2}]}
        {"step": 4, "rows": [{"seq": "a", "offset": 22, "tokens": 1}]}"""
    ran = run(trace(steps, "gemma3_text", ""))
    assert ran.outcome.crash is None
    assert found(ran.report) == set()
    assert sum(step.compared for step in ran.outcome.steps) == 25


def test_a_padding_mask_of_the_chunk_alone_is_handed_in_again():
    steps = """
        {"step": 1, "rows": [{"seq": "a", "offset": 0, "tokens": 12}]}
        {"step": 2, "rows": [{"seq": "a", "offset": 12, "tokens": 5}], "attention": [{"family": "full", "offset": 12, "q": 5, "k": 17, "mask": [1, 1, 5, 17], "key_padding": 5}]}"""
    ran = run(trace(steps, "llama", ""))
    assert {"MD111", "MD402"} <= found(ran.report)
    assert "fewer columns than there are tokens" in (ran.trace.header.planted or "")


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
def test_a_prefill_with_no_mask_at_all_looks_ahead_again(attention):
    head = f"environment: {{attention: {attention}, libraries: {{transformers: 5.24.0}}}}\n"
    steps = """
        {"step": 1, "rows": [{"seq": "a", "offset": 0, "tokens": 12}], "attention": [{"family": "full", "offset": 0, "q": 12, "k": 12, "mask": null}]}"""
    ran = run(trace(steps, "llama", head))
    assert {"MD112", "MD303", "MD402"} <= found(ran.report)
    assert "no mask, as recorded" in (ran.trace.header.planted or "")


def test_padding_is_hidden_without_a_cache_too():
    """As `generate(use_cache=False)` does it: the second row is done after the first pass."""
    steps = """
        {"step": 1, "rows": [{"seq": "a", "offset": 0, "tokens": 12}, {"seq": "b", "offset": 0, "tokens": 5, "left_padding": 7}]}
        {"step": 2, "rows": [{"seq": "a", "offset": 0, "tokens": 13}, {"seq": "b", "offset": 0, "tokens": 5, "left_padding": 7, "right_padding": 1}]}"""
    ran = run(trace(steps, "gemma3_text", "scheduler: {cacheless: true}\n"))
    assert found(ran.report) == set()
    assert sum(step.compared for step in ran.outcome.steps) == 12 + 5 + 13 + 5
    assert {call.cache for entry in ran.trace.entries for call in entry.attention or []} == {None}


@pytest.mark.parametrize("recorded", ["sdpa", "eager"])
def test_attention_is_that_of_the_recording(recorded):
    head = f"environment: {{device: cuda, attention: {recorded}, libraries: {{transformers: 5.24.0}}}}\n"
    ran = run(trace(STEP, "gemma3_text", head))
    assert ran.trace.header.environment["attention"] == recorded
    # sdpa needs no array to be causal.
    full = {
        call.mask for entry in ran.trace.entries for call in entry.attention or [] if call.family == "full"
    }
    assert full == ({"causal"} if recorded == "sdpa" else {(1, 1, 12, 12)})


def test_a_tiny_instance_is_run_on_one_thread():
    import torch

    seen = []

    class Counting(Runner):
        def run(self):
            seen.append(torch.get_num_threads())
            return super().run()

    before = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        prepared = experiment.prepare(trace(STEP, "gemma3_text", ""), source="t.yaml", backend="torch")
        instance = experiment.instance_for(prepared, device="cpu")
        experiment.run_policies(prepared, instance, ("strict",), kind=Counting)
        assert (seen, torch.get_num_threads()) == ([1], 3)
    finally:
        torch.set_num_threads(before)


def test_rows_that_join_a_batch_under_way_are_not_imitated():
    steps = """
        {"step": 1, "rows": [{"seq": "a", "offset": 0, "tokens": 9}]}
        {"step": 2, "rows": [{"seq": "b", "offset": 0, "tokens": 4}]}
        {"step": 3, "rows": [{"seq": "a", "offset": 9, "tokens": 1}, {"seq": "b", "offset": 4, "tokens": 1}]}"""
    with pytest.raises(UnjudgedError, match="joins caches which hold keys"):
        run(trace(steps, "gemma3_text", ""))


@pytest.mark.parametrize("architecture", [name for name in catalogue.CATALOGUE if name not in ELSEWHERE])
def test_every_family_of_the_catalogue_runs_chunks_across_its_window(architecture):
    steps = """
        {"step": 1, "rows": [{"seq": "a", "offset": 0, "tokens": 9}]}
        {"step": 2, "rows": [{"seq": "a", "offset": 9, "tokens": 20}]}
        {"step": 3, "rows": [{"seq": "a", "offset": 29, "tokens": 1}]}"""
    windows = "{sliding: {attention: sliding, window: 8}}"
    head = f"model: {{architecture: {architecture}, layers: {windows}}}\n"
    lines = "".join(f"- {line.strip()}\n" for line in steps.strip().splitlines())
    ran = run(parse(f"schema: mlxdiag.trace/1\n{head}steps:\n{lines}"))
    assert sum(step.compared for step in ran.outcome.steps) == 30
    assert found(ran.report) == FAULTS.get(architecture, set())


def test_a_model_whose_outputs_are_all_alike_judges_nothing():
    prepared = experiment.prepare(
        trace(HEALTHY[ALONE[0]], "gemma3_text", ""), source="t.yaml", backend="torch"
    )
    instance = experiment.instance_for(prepared, device="cpu")
    healthy = experiment.run_policies(prepared, instance, ("strict",))
    assert replay_report(healthy, prepared, instance).summary.caveat == ""
    for weight in instance.model.parameters():
        weight.data.zero_()
    ran = experiment.run_policies(prepared, instance, ("strict",))
    assert "none was told apart" in replay_report(ran, prepared, instance).summary.caveat


def test_a_model_that_looks_ahead_is_not_run():
    loaded = parse(
        "schema: mlxdiag.trace/1\n"
        "model: {architecture: gemma3_text, config: {use_bidirectional_attention: true}}\n"
        "steps:\n"
        "- {step: 1, rows: [{seq: a, offset: 0, tokens: 5}]}\n"
    )
    with pytest.raises(UnjudgedError, match="queries attend to later tokens"):
        run(loaded)
