import json
import xml.etree.ElementTree as ElementTree

import pytest

from tests.cli.program import BLIND, BROKEN, HEALTHY, SHORT_BUT_RIGHT, SHORT_MASK, call, start

FORMATS = ["text", "json", "sarif", "github", "junit", "markdown"]


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize(
    ("lines", "code"),
    [((HEALTHY,), 0), ((HEALTHY, SHORT_MASK), 1), ((HEALTHY, SHORT_BUT_RIGHT), 0), ((BLIND,), 4), ((), 4)],
)
def test_the_exit_code_is_the_same_in_every_format(trace, capsys, format, lines, code):
    assert call(capsys, "inspect", trace(*lines), "--format", format).code == code


def test_a_warning_fails_only_when_asked(trace, capsys):
    name = trace(HEALTHY, SHORT_BUT_RIGHT)
    assert call(capsys, "inspect", name).code == 0
    assert call(capsys, "inspect", name, "--fail-on", "warning").code == 1


def test_nothing_judged_is_said_in_a_sentence(trace, capsys):
    ran = call(capsys, "inspect", trace(BLIND))
    assert ran.code == 4
    assert "1 of 1 attention calls lack what the rules need" in ran.err
    assert "clean: no rule fired" not in ran.out


def test_emitted_tokens_alone_are_something_to_judge(trace, capsys):
    row = '{{"seq": "a", "offset": {0}, "tokens": 1, "emitted": 1, "classes": "t"}}'
    lines = [f'- {{"step": {n}, "rows": [{row.format(n)}]}}\n' for n in (1, 2)]
    ran = call(capsys, "inspect", trace(*lines))
    assert ran.code == 0
    assert "no attention call could be judged" in ran.out
    assert "clean: no rule fired" not in ran.out


def test_a_warning_that_the_trace_is_cut_off_is_no_judgement(trace, capsys):
    ran = call(capsys, "inspect", trace(BLIND, BLIND[:40]))
    assert ran.code == 4
    assert "MD903" in ran.out


def test_what_came_before_a_broken_line_is_still_judged(trace, capsys):
    ran = call(capsys, "inspect", trace(HEALTHY, SHORT_MASK, BROKEN))
    assert ran.code == 3
    assert "MD101" in ran.out
    last = ran.err.strip().split("\n")[-1]
    assert last.startswith("mlxdiag: error: t.yaml: step 9")
    assert "offset" in last


def test_a_file_that_is_not_there_is_unreadable(trace, capsys):
    trace()
    ran = call(capsys, "inspect", "none.yaml")
    assert (ran.code, ran.out) == (3, "")
    assert ran.err == "mlxdiag: error: none.yaml: no such file\n"


def test_one_bad_file_does_not_hide_the_others(trace, capsys):
    good = trace(HEALTHY, SHORT_MASK, name="good.yaml")
    ran = call(capsys, "inspect", "none.yaml", good, "--format", "json")
    assert ran.code == 3
    assert [f["source"] for f in json.loads(ran.out)["findings"]] == ["good.yaml"]


def test_several_files_are_one_document(trace, capsys):
    names = [trace(HEALTHY, SHORT_MASK, name="a.yaml"), trace(HEALTHY, name="b.yaml")]
    for format, parse in (("json", json.loads), ("sarif", json.loads), ("junit", ElementTree.fromstring)):
        ran = call(capsys, "inspect", *names, "--format", format)
        assert ran.code == 1
        parse(ran.out)


def test_only_the_result_is_on_standard_output(trace, capsys):
    ran = call(capsys, "inspect", trace(HEALTHY, SHORT_MASK), "--format", "json")
    assert json.loads(ran.out)["summary"]["errors"] == 1
    assert ran.err.startswith("mlxdiag: t.yaml: 1 error, 0 warnings")


def test_annotations_point_at_the_line_of_the_step(trace, capsys):
    ran = call(capsys, "inspect", trace(HEALTHY, SHORT_MASK), "--format", "github")
    assert ran.out.startswith("::error file=t.yaml,line=4,title=MD101 ")


def test_a_clean_trace_annotates_nothing(trace, capsys):
    ran = call(capsys, "inspect", trace(HEALTHY), "--format", "github")
    assert (ran.code, ran.out) == (0, "")


@pytest.mark.parametrize(
    ("options", "code"),
    [
        (["--select", "MD1"], 1),
        (["--select", "md101,MD2"], 1),
        (["--ignore", "MD1"], 0),
        (["--select", "MD1", "--ignore", "MD101,MD105"], 0),
        (["--select", "MD7"], 2),
        (["--ignore", "nonsense"], 2),
        (["--format", "yaml"], 2),
        (["--fail-on", "info"], 2),
        (["--nonsense"], 2),
        (["--expect", "MD101"], 0),
        (["--expect", "MD101,MD102"], 1),
        (["--expect", "none"], 1),
        (["--expect", "MD1"], 2),
    ],
)
def test_options_choose_rules_and_wrong_ones_are_usage_errors(trace, capsys, options, code):
    ran = call(capsys, "inspect", trace(HEALTHY, SHORT_MASK), *options)
    assert ran.code == code
    if code == 2:
        assert ran.out == ""
        assert ran.err.startswith("mlxdiag: error: ")


def test_expect_counts_warnings_and_tells_what_was_seen(trace, capsys):
    name = trace(HEALTHY, SHORT_BUT_RIGHT)
    assert call(capsys, "inspect", name, "--expect", "MD101").code == 0
    ran = call(capsys, "inspect", name, "--expect", "MD102")
    assert ran.code == 1
    assert "expected MD102, seen MD101" in ran.err


def test_expect_none_is_met_by_a_clean_trace_and_not_by_a_blind_one(trace, capsys):
    assert call(capsys, "inspect", trace(HEALTHY), "--expect", "none").code == 0
    assert call(capsys, "inspect", trace(BLIND), "--expect", "none").code == 4


def test_output_is_written_once_and_never_over_a_file(trace, capsys, tmp_path):
    name = trace(HEALTHY, SHORT_MASK)
    ran = call(capsys, "inspect", name, "--format", "json", "-o", "out.json")
    assert (ran.code, ran.out) == (1, "")
    assert json.loads((tmp_path / "out.json").read_text())["findings"]
    ran = call(capsys, "inspect", name, "--format", "json", "-o", "out.json")
    assert ran.code == 2
    assert "--force" in ran.err
    assert call(capsys, "inspect", name, "--format", "json", "-o", "out.json", "--force").code == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out.json", "t.yaml"]


def test_half_a_result_is_never_written_to_a_file(trace, capsys, tmp_path):
    for lines, code in (((HEALTHY, SHORT_MASK, BROKEN), 3), ((BLIND,), 4)):
        ran = call(capsys, "inspect", trace(*lines), "-o", "out.txt")
        assert ran.code == code
        assert ran.out
        assert "out.txt was not written" in ran.err
        assert not (tmp_path / "out.txt").exists()


def test_an_input_is_never_overwritten_even_by_force(trace, capsys, tmp_path):
    name = trace(HEALTHY)
    before = (tmp_path / name).read_text()
    assert call(capsys, "inspect", name, "-o", name, "--force").code == 2
    assert (tmp_path / name).read_text() == before


def test_a_folder_that_is_not_there_is_a_usage_error(trace, capsys):
    assert call(capsys, "inspect", trace(HEALTHY), "-o", "no/where.txt").code == 2


def test_unknown_fields_are_a_warning_on_standard_error(trace, capsys):
    ran = call(capsys, "inspect", trace(HEALTHY.replace('"step": 1', '"step": 1, "colour": "red"')))
    assert ran.code == 0
    assert "mlxdiag: warning: t.yaml: step 1" in ran.err
    assert "colour" in ran.err


def test_a_newcomers_ten_lines_are_judged(trace, capsys):
    name = trace(
        head="""schema: mlxdiag.trace/1
model:
  layers:
    sliding: {attention: sliding, window: 512}
steps:
- rows: [{seq: a, offset: 2048, tokens: 153, padded: 160}]
  attention:
  - family: sliding
    k: 671
    mask: [160, 160]
"""
    )
    ran = call(capsys, "inspect", name)
    assert ran.code == 1
    assert "error MD101 mask-shorter-than-keys" in ran.out


def test_the_mask_around_the_fault_is_drawn_for_people_only(trace, capsys):
    name = trace(HEALTHY, SHORT_MASK)
    assert "\n  keys      7 ========================================\n" in call(capsys, "inspect", name).out
    assert "=====" not in call(capsys, "inspect", name, "--format", "markdown").out


def test_a_drawing_in_a_pipe_has_no_colour(trace):
    ran = start("inspect", trace(HEALTHY, SHORT_MASK))
    assert "keys      7 =" in ran.stdout
    assert "\x1b" not in ran.stdout
