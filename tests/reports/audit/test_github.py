from mlxdiag.reports.audit import github
from tests.reports.audit.examples import DIFFERENCE, clean, hostile, shown


def test_an_annotation_per_fault_on_the_line_of_the_library():
    first, second = github.render(shown()).splitlines()
    assert first.startswith(
        "::error file=mlx_lm/models/gemma2.py,line=176,"
        "title=MD108 window-not-enforced (gemma2-window)::cause: One"
    )
    assert second.startswith("::error title=MD902 aborted (md902-old-1a2b3c)::seen: the process died")


def test_what_a_baseline_accepts_is_a_notice_and_what_is_fixed_an_error():
    lines = github.render(shown(difference=DIFFERENCE)).splitlines()
    assert [line.split(" ")[0] for line in lines] == ["::notice", "::error", "::error"]
    assert "long-gone no longer fails" in lines[2]


def test_a_clean_audit_prints_nothing():
    assert github.render(shown(clean())) == ""


def test_hostile_text_is_one_command():
    (line,) = github.render(shown(hostile())).splitlines()
    assert line.count("::error ") == 1
    assert "\x1b" not in line
