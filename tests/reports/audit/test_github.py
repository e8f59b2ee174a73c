from mlxdiag.reports.audit import github
from tests.reports.audit.examples import ACCEPTED, DIFFERENCE, clean, hostile, shown


def test_an_annotation_per_fault_on_the_line_of_the_library():
    first, second = github.render(shown()).splitlines()
    assert first.startswith(
        "::error file=mlx_lm/models/gemma2.py,line=176,"
        "title=MD108 window-not-enforced (gemma2-window)::cause: One"
    )
    assert second.startswith("::error title=MD902 aborted (md902-old-1a2b3c)::seen: the process died")


def test_what_a_baseline_accepts_is_one_notice_after_the_errors():
    lines = github.render(shown(difference=ACCEPTED)).splitlines()
    assert [line.split(" ")[0] for line in lines] == ["::error", "::error", "::notice"]
    assert "md902-old-1a2b3c" in lines[0]
    assert "long-gone no longer fails" in lines[1]
    assert lines[2] == "::notice title=audit baseline::1 fault accepted by the baseline: gemma2-window"


def test_new_cells_of_an_accepted_fault_are_an_error_that_names_them():
    new, changed, fixed = github.render(shown(difference=DIFFERENCE)).splitlines()
    assert new.startswith("::error title=MD902")
    assert changed.startswith("::error file=mlx_lm/models/gemma2.py,line=176,")
    assert "baseline: now also breaks gemma2/key-cap" in changed
    assert "long-gone" in fixed


def test_a_clean_audit_prints_nothing():
    assert github.render(shown(clean())) == ""


def test_hostile_text_is_one_command():
    (line,) = github.render(shown(hostile())).splitlines()
    assert line.count("::error ") == 1
    assert "\x1b" not in line
