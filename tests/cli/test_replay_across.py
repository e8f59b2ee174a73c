"""`mlxdiag replay --backend mlx,torch` as a user meets it."""

import json

from tests.cli.program import call
from tests.samples.expected import FOLDER

HEAD = (
    "schema: mlxdiag.trace/1\n"
    "model: {architecture: ARCH, layers: {sliding: {attention: sliding, window: 8}}}\n"
    "steps:\n"
)
FIRST = '- {"step": 1, "rows": [{"seq": "a", "offset": 0, "tokens": 12}]}\n'
SECOND = '- {"step": 2, "rows": [{"seq": "a", "offset": 12, "tokens": 1}]}\n'
BOTH = ("--backend", "mlx,torch")


def test_two_that_agree_are_clean_and_both_verdicts_are_shown(trace, capsys):
    ran = call(capsys, "replay", trace(FIRST, SECOND, head=HEAD.replace("ARCH", "gemma3_text")), *BOTH)
    assert ran.code == 0
    assert ran.out.count("All 13 real queries attend exactly the positions they must") == 2
    assert "transformers and mlx-lm agree: 13 positions within" in ran.out
    heads = [line.split(": ")[0] for line in ran.out.splitlines() if line.startswith("t.yaml (")]
    assert heads == ["t.yaml (transformers)", "t.yaml (mlx-lm)", "t.yaml (transformers against mlx-lm)"]


def test_where_both_end_before_anything_could_be_compared_that_is_said(capsys):
    ran = call(capsys, "replay", str(FOLDER / "gpt-oss-one-pass.yaml"), *BOTH)
    assert ran.code == 4
    assert "nothing was compared" in ran.err


def test_a_window_that_one_ignores_fails_with_the_keys(trace, capsys):
    head = HEAD.replace("ARCH", "gemma2")
    ran = call(capsys, "replay", trace(FIRST, SECOND, head=head), *BOTH, "--format", "json")
    assert ran.code == 1
    (finding,) = [one for one in json.loads(ran.out)["findings"] if one["code"] == "MD403"]
    assert finding["source"] == "t.yaml (transformers against mlx-lm)"
    assert finding["evidence"]["kind"] == "visibility"
    assert (finding["evidence"]["seen"], finding["evidence"]["seen_there"]) == ([0, 8], [1, 8])


def test_the_second_runs_trace_is_written_and_judged_alike(trace, capsys, tmp_path):
    out = tmp_path / "second.yaml"
    head = HEAD.replace("ARCH", "gemma2")
    call(capsys, "replay", trace(FIRST, head=head), *BOTH, "-o", str(out))
    again = call(capsys, "inspect", str(out), "--select", "MD403", "--expect", "MD403")
    assert again.code == 0


def test_a_family_of_one_library_only_ends_with_the_reason(trace, capsys):
    head = "schema: mlxdiag.trace/1\nmodel: {architecture: beam, config: {model_type: beam}}\nsteps:\n"
    ran = call(capsys, "replay", trace(FIRST, head=head), *BOTH)
    assert ran.code == 4
    assert "has no family beam" in ran.err


def test_quantised_weights_are_refused(trace, capsys, tmp_path):
    folder = tmp_path / "quantised"
    folder.mkdir()
    config = {"model_type": "gemma2", "num_hidden_layers": 2, "quantization": {"bits": 4, "group_size": 64}}
    (folder / "config.json").write_text(json.dumps(config))
    head = HEAD.replace("ARCH", "gemma2")
    ran = call(capsys, "replay", trace(FIRST, head=head), *BOTH, "--model", str(folder))
    assert ran.code == 4
    assert "its weights are quantised" in ran.err
