"""Smallest schedules and scripts, asked of workers: what becomes of a fault where they answer, or die."""

import msgspec
import pytest

from mlxdiag.audit.engine.run import run
from mlxdiag.audit.faults.causes import Causes
from mlxdiag.audit.faults.minimal import in_words
from tests.audit.standin import PARTS, SCHEDULE, wanted


def faults(*families, **changes):
    audit = run(wanted(*families, **changes), causes=Causes(), parts=PARTS)
    return {fault.families[0]: fault for fault in audit.faults}, audit


def test_a_fault_is_told_by_its_smallest_schedule():
    found, _ = faults("faulty", seed=3)
    fault = found["faulty"]
    assert fault.smallest == SCHEDULE
    assert fault.schedule == "prefill 9 (window 8)"
    assert (fault.first, fault.positions, fault.max_abs, fault.tolerance) == (8, [8, 9], 0.5, 0.1)
    assert fault.cause == "smaller, seed 3"


def test_where_no_search_succeeds_the_failing_schedule_itself_stays():
    found, _ = faults("aborting")
    assert found["aborting"].cause.startswith("the process died of SIGABRT")
    assert found["aborting"].smallest == ""


def test_where_a_search_finds_nothing_the_next_cell_of_the_fault_is_tried():
    cause = {
        "name": "one-for-both",
        "match": [{"families": ["aborting", "faulty"], "scenarios": ["*"], "codes": ["MD302", "MD902"]}],
        "text": "It is known.",
        "where": {"file": "standin.py", "snippet": "def preload_fails"},
        "code": "MD302",
    }
    causes = msgspec.convert({"causes": [cause]}, Causes)
    (fault,) = run(wanted("aborting", "faulty"), causes=causes, parts=PARTS).faults
    assert fault.families == ["aborting", "faulty"]
    assert fault.smallest == SCHEDULE


def test_a_search_may_be_left_out():
    found, _ = faults("faulty", shrink=False)
    assert found["faulty"].schedule == ""


def test_scripts_are_named_in_the_faults_and_missing_ones_noted(tmp_path):
    found, audit = faults("aborting", "faulty", repros=tmp_path)
    assert (tmp_path / found["faulty"].repro).read_text() == SCHEDULE
    assert found["aborting"].repro == ""
    assert audit.notes == [
        f"no script was written for {found['aborting'].id}: its worker ended before it was done"
    ]
    assert found["faulty"].confirmed


def test_a_script_that_does_not_show_its_fault_is_named(tmp_path):
    found, audit = faults("faulty", repros=tmp_path, seed=3)
    script = found["faulty"].repro
    assert script
    assert not found["faulty"].confirmed
    assert audit.notes == [f"{script} does not show its fault here (exit code 0): seed 3"]


HEAD = 'schema: mlxdiag.trace/1\nmodel: {"layers": {"s": {"attention": "sliding", "window": 8}}}\nsteps:\n'


@pytest.mark.parametrize(
    ("steps", "words"),
    [
        (['{"rows": [{"seq": "a", "offset": 0, "tokens": 9}]}'], "prefill 9"),
        (
            [
                '{"rows": [{"seq": "a", "offset": 0, "tokens": 4}]}',
                *(f'{{"rows": [{{"seq": "a", "offset": {at}, "tokens": 1}}]}}' for at in (4, 5, 6)),
            ],
            "prefill 4, decode 1 x 3",
        ),
        (
            [
                '{"rows": [{"seq": "a", "offset": 0, "tokens": 4}, '
                '{"seq": "b", "offset": 0, "tokens": 1, "left_padding": 3}]}'
            ],
            "prefill 4+1 with 0+3 of padding on the left",
        ),
        (
            ['{"rows": [{"seq": "a", "offset": 0, "tokens": 4, "padded": 8}]}'],
            "prefill 4 with 4 of padding on the right",
        ),
        (['{"phase": "rollback", "rows": [{"seq": "a", "asked": 2, "done": 0}]}'], "rollback 2"),
        (['{"phase": "merge", "rows": [{"seq": "a"}, {"seq": "b"}]}'], "merge"),
    ],
)
def test_a_schedule_in_words(steps, words):
    text = HEAD + "".join(f"- {step}\n" for step in steps)
    assert in_words(text) == f"{words} (window 8)"
