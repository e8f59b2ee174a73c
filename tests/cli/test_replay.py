"""`mlxdiag replay` as a user meets it: what is printed where, and every way it can end."""

import json
from pathlib import Path

import pytest

from tests.cli.program import BROKEN, call

HEAD = (
    "schema: mlxdiag.trace/1\n"
    "model: {architecture: gemma3_text, layers: {sliding: {attention: sliding, window: 8}}}\n"
    "steps:\n"
)
FIRST = '- {"step": 1, "rows": [{"seq": "a", "offset": 0, "tokens": 12}]}\n'
SECOND = '- {"step": 2, "rows": [{"seq": "a", "offset": 12, "tokens": 5}]}\n'
STALE = SECOND.replace("}]}", '}], "mask": {"shape": [5, 5], "offset": 0}}')
MODEL = '- {"phase": "model", "architecture": "gemma3_text", "config": {"%s": %d}}\n'
DEEP = MODEL % ("num_hidden_layers", -1)
HEADLESS = MODEL % ("head_dim", 7)
BACKWARDS = '- {"step": 3, "rows": [{"seq": "a", "offset": 3, "tokens": 5}]}\n'


def test_a_healthy_schedule_is_clean_and_says_what_was_compared(trace, capsys):
    ran = call(capsys, "replay", trace(FIRST, SECOND, head=HEAD))
    assert ran.code == 0
    assert "All 17 real queries attend exactly the positions they must" in ran.out
    assert "17 positions agree with the single pass" in ran.out


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
@pytest.mark.parametrize("backend", ["mlx", "mlx,torch"])
def test_a_disk_that_is_full_does_not_take_the_verdict_along(trace, capsys, backend):
    if backend != "mlx":
        pytest.importorskip("torch", reason="no torch: pip install 'mlxdiag[torch]'")
    name = trace(FIRST, head=HEAD)
    ran = call(capsys, "replay", name, "--backend", backend, "-o", "/dev/full", "--force")
    assert ran.code == 2
    assert "/dev/full: cannot be written: No space left" in ran.err
    assert "All 12 real queries attend exactly the positions they must" in ran.out


def test_several_policies_make_one_table(trace, capsys):
    ran = call(capsys, "replay", trace(FIRST, STALE, head=HEAD), "--misfit", "strict,discard:none,rebuild")
    assert ran.code == 1
    rows = [
        line.split()
        for line in ran.out.split("\n")
        if line.startswith(("  strict ", "  discard:none ", "  rebuild "))
    ]
    assert [row[0] for row in rows] == ["strict", "discard:none", "rebuild"]
    assert rows[0][1:3] == ["step", "2"]
    assert "Shapes (5,5) and (1,4,5,12) cannot be broadcast" in ran.out


def test_json_holds_the_table_and_every_steps_numbers(trace, capsys):
    ran = call(
        capsys, "replay", trace(FIRST, STALE, head=HEAD), "--misfit", "discard:causal", "--format", "json"
    )
    document = json.loads(ran.out)
    sections = {section["name"]: section for section in document["sections"]}
    (policy,) = sections["policies"]["data"]["policies"]
    assert policy["policy"] == "discard:causal"
    assert policy["window_errors"] > 0
    assert policy["steps"][1]["first"] is not None
    assert "caller's causal mask" in " ".join(sections["setting"]["lines"])


def test_the_replayed_trace_can_be_written_inspected_and_replayed_again(trace, capsys):
    name = trace(FIRST, STALE, head=HEAD)
    assert call(capsys, "replay", name, "--misfit", "discard:causal", "-o", "again.yaml").code == 1
    inspected = call(capsys, "inspect", "again.yaml")
    assert "MD108" in inspected.out
    assert call(capsys, "replay", "again.yaml").code == 1


def test_expected_codes_make_a_faulty_sample_succeed(trace, capsys):
    name = trace(FIRST, STALE, head=HEAD)
    wrong = call(capsys, "replay", name, "--misfit", "rebuild", "--expect", "MD999")
    assert wrong.code == 2
    seen = call(capsys, "replay", name, "--misfit", "strict", "--format", "json")
    headlines = {f["code"] for f in json.loads(seen.out)["findings"] if f["severity"] != "info"}
    assert (
        call(capsys, "replay", name, "--misfit", "strict", "--expect", ",".join(sorted(headlines))).code == 0
    )
    assert call(capsys, "replay", name, "--misfit", "strict", "--expect", "MD304").code == 1


def test_a_plan_runs_nothing_and_is_shown_as_text_or_json(trace, capsys):
    name = trace(FIRST, STALE, head=HEAD)
    text = call(capsys, "replay", name, "--plan")
    assert text.code == 0
    assert "caller's causal mask [5, 5] built at 0" in text.out
    assert "clean" not in text.out
    plan = json.loads(call(capsys, "replay", name, "--plan", "--format", "json").out)
    assert plan["schema"] == "mlxdiag.plan/1"
    assert call(capsys, "replay", name, "--plan", "--format", "sarif").code == 2


@pytest.mark.parametrize(
    ("lines", "options", "code", "says"),
    [
        ((FIRST, BACKWARDS), (), 3, "t.yaml: step 3: rows[0].offset: a goes back to 3"),
        ((), (), 4, "holds no forward"),
        ((FIRST,), ("--seed", "-1"), 2, "--seed"),
        ((FIRST.replace("12", "900000"),), (), 4, "t.yaml: a replay needs about"),
        ((FIRST,), ("--misfit", "shrug"), 2, "'shrug' is unknown; known: strict, raise, discard:windowed"),
        ((FIRST,), ("--level", "deep"), 2, "--level: 'deep' is unknown"),
        ((FIRST,), ("--backend", "jax"), 2, "'jax' is unknown"),
        ((FIRST,), ("--model", "nowhere"), 3, "nowhere"),
        ((DEEP, FIRST), (), 3, "t.yaml: model.config: config of gemma3_text: num_hidden_layers is -1"),
        ((HEADLESS, FIRST), ("--backend", "torch"), 3, "t.yaml: model.config: config of gemma3_text: "),
        ((FIRST,), ("-o", "t.yaml"), 2, "t.yaml"),
    ],
)
def test_what_cannot_be_run_ends_in_one_line_with_its_own_code(trace, capsys, lines, options, code, says):
    ran = call(capsys, "replay", trace(*lines, head=HEAD), *options)
    assert ran.code == code
    assert says in ran.err
    assert "Traceback" not in ran.err + ran.out


def test_what_stands_before_an_impossible_step_is_still_replayed(trace, capsys):
    ran = call(capsys, "replay", trace(FIRST, SECOND, BACKWARDS, head=HEAD))
    assert ran.code == 3
    assert "All 17 real queries" in ran.out
    assert "t.yaml: step 3: rows[0].offset: a goes back to 3" in ran.err


def test_a_run_that_ends_in_an_error_of_no_shape_is_an_error_all_the_same(trace, capsys):
    head = HEAD.replace("gemma3_text", "llama").replace("model:", "scheduler: {kv_bits: 99}\nmodel:")
    ran = call(
        capsys,
        "replay",
        trace(FIRST, '- {"step": 2, "phase": "quantize", "rows": [{"seq": "a"}]}\n', head=head),
    )
    assert ran.code == 1
    assert "MD906 recorded-error  step 2" in ran.out


def test_a_trace_that_names_no_model_says_what_to_add(trace, capsys):
    ran = call(capsys, "replay", trace(FIRST))
    assert ran.code == 3
    assert "model: {architecture: gemma4_text}" in ran.err


def test_a_family_that_is_not_installed_is_unjudged(trace, capsys):
    head = HEAD.replace("gemma3_text", "diffusion_gemma")
    ran = call(capsys, "replay", trace(FIRST, head=head))
    assert ran.code == 4
    assert "diffusion_gemma" in ran.err


def test_what_stands_before_a_broken_line_is_still_replayed(trace, capsys):
    ran = call(capsys, "replay", trace(FIRST, SECOND, BROKEN, head=HEAD))
    assert ran.code == 3
    assert "All 17 real queries" in ran.out
    assert "step 9" in ran.err


def test_a_recorded_fault_that_is_not_reproduced_is_never_clean(trace, capsys):
    one_key_too_many = (
        '- {"step": 2, "rows": [{"seq": "a", "offset": 12, "tokens": 1}], '
        '"attention": [{"family": "sliding", "k": 9, "mask": null}]}\n'
    )
    ran = call(capsys, "replay", trace(FIRST, one_key_too_many, head=HEAD))
    assert ran.code == 4
    assert "not reproduced" in ran.out.split("\n")[0]
    assert "MD201 returned-keys-break-contract (step 2, a, sliding)" in ran.out
    assert "clean" not in ran.out


def test_a_fault_of_masks_is_not_asked_of_a_policy_that_mends_it(trace, capsys):
    ran = call(capsys, "replay", trace(FIRST, STALE, head=HEAD), "--misfit", "rebuild")
    assert "not reproduced" not in ran.out + ran.err
    assert ran.code == 0


def test_a_checkpoint_of_another_family_is_refused(trace, capsys, tmp_path):
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "config.json").write_text('{"model_type": "llama", "num_hidden_layers": 2}')
    ran = call(capsys, "replay", trace(FIRST, head=HEAD), "--model", "other")
    assert ran.code == 2
    assert "the checkpoint is of family llama, the trace of gemma3_text" in ran.err


def test_a_checkpoint_s_config_that_contradicts_itself_is_named(trace, capsys, tmp_path):
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "config.json").write_text('{"model_type": "gemma3_text", "num_hidden_layers": "4"}')
    ran = call(capsys, "replay", trace(FIRST, head=HEAD), "--model", "deep", "--plan")
    assert ran.code == 3
    assert "deep/config.json: config field num_hidden_layers must be an integer, not '4'" in ran.err


def test_a_dropped_mask_with_an_unknown_fallback_is_tried_with_each(trace, capsys):
    dropped = (
        '- {"step": 2, "rows": [{"seq": "a", "offset": 12, "tokens": 5}], "attention": '
        '[{"family": "sliding", "k": 12, "mask": [5, 5], "fate": "discarded"}]}\n'
    )
    ran = call(capsys, "replay", trace(FIRST, dropped, head=HEAD))
    assert "does not say for what" in ran.err
    for policy in ("discard:causal", "discard:windowed", "discard:none"):
        assert f"\n  {policy} " in ran.out
    assert ran.code == 1
