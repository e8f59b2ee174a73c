import json

from tests.cli.program import BROKEN, HEALTHY, SHORT_BUT_RIGHT, SHORT_MASK, call


def test_equal_traces_are_clean(trace, capsys):
    names = [trace(HEALTHY, name="a.yaml"), trace(HEALTHY, name="b.yaml")]
    ran = call(capsys, "diff", *names)
    assert (ran.code, ran.out) == (0, "a.yaml and b.yaml tell the same\n")


def test_the_first_step_and_field_are_named(trace, capsys):
    names = [trace(HEALTHY, SHORT_MASK, name="a.yaml"), trace(HEALTHY, SHORT_BUT_RIGHT, name="b.yaml")]
    ran = call(capsys, "diff", *names)
    assert ran.code == 1
    assert ran.out.startswith("a.yaml and b.yaml part at step 2, attention[0].fate\n")
    assert "  a.yaml: not there\n  b.yaml: discarded\n" in ran.out


def test_unlike_headers_do_not_hide_unlike_steps(trace, capsys):
    head = "schema: mlxdiag.trace/1\nscheduler: {chunk: 512}\nsteps:\n"
    names = [trace(HEALTHY, name="a.yaml"), trace(HEALTHY, SHORT_MASK, name="b.yaml", head=head)]
    ran = call(capsys, "diff", *names, "--format", "json")
    assert ran.code == 1
    first, second = json.loads(ran.out)["differences"]
    assert first["index"] is None
    assert (second["index"], second["step"]) == (1, 2)
    assert "left" not in second


def test_what_one_side_did_not_see_can_be_left_out(trace, capsys):
    names = [trace(HEALTHY, SHORT_MASK, name="a.yaml"), trace(HEALTHY, SHORT_BUT_RIGHT, name="b.yaml")]
    assert call(capsys, "diff", *names, "--common").code == 0


def test_two_empty_traces_were_not_compared(trace, capsys):
    names = [trace(name="a.yaml"), trace(name="b.yaml")]
    ran = call(capsys, "diff", *names)
    assert ran.code == 4
    assert "nothing was compared" in ran.err


def test_a_broken_trace_is_unreadable(trace, capsys):
    names = [trace(HEALTHY, name="a.yaml"), trace(HEALTHY, BROKEN, name="b.yaml")]
    assert call(capsys, "diff", *names).code == 3
