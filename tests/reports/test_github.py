from mlxdiag.reports import github
from mlxdiag.reports.view import View
from tests.reports.examples import clean, faulty, hostile


def test_each_finding_is_one_annotation_of_its_level():
    lines = github.render([faulty()], View(lines={"runs/a.yaml": {5: 11}})).splitlines()
    head = "::error file=runs/a.yaml,line=11,title=MD101 mask-shorter-than-keys::"
    assert lines[0].startswith(head + "step 5, seq-6, sliding (35 times): The mask covers 160 keys")
    assert lines[1].startswith("::warning file=runs/a.yaml,title=MD504 ")
    assert lines[2].startswith("::notice file=runs/a.yaml,title=MD905 ")
    assert len(lines) == 3


def test_the_cause_and_the_next_command_are_lines_of_the_message():
    line = github.render([faulty()], View()).splitlines()[0]
    assert "%0Acause: MD105" in line
    assert line.endswith("%0Anext: mlxdiag replay trace.yaml")


def test_a_clean_trace_prints_nothing():
    assert github.render([clean()], View()) == ""


def test_hostile_text_cannot_end_the_command_or_add_a_property():
    shown = github.render([hostile()], View())
    assert shown.count("\n") == 1
    head, _, message = shown.removeprefix("::").rstrip("\n").partition("::")
    assert head.count(",") == 1  # file and title
    assert head.count(":") == 0
    assert message.isprintable()
    assert "%0A::set-output" in message
