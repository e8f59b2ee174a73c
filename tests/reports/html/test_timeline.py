import random

from mlxdiag.reports.html import timeline
from mlxdiag.reports.html.story import Lane
from tests.reports.html.pages import BLIND, DECODE, embedded, rendered, told


def lane(marks):
    made = Lane("a")
    for place, kind in marks:
        made.places.append(place)
        made.kinds.append(kind)
    return made


def unfolded(runs):
    return sorted((start + i * stride, kind) for start, stride, count, kind in runs for i in range(count))


def test_runs_hold_every_mark_whatever_the_order():
    draw = random.Random(7)
    for _ in range(30):
        places = sorted(draw.sample(range(200), 60))
        kinds = [draw.choice(["prefill", "chunk", "decode", "verify"]) for _ in places]
        wanted = sorted(zip(places, (timeline.DRAWN[kind] for kind in kinds), strict=True))
        assert unfolded(timeline.runs(lane(zip(places, kinds, strict=True)))) == wanted


def test_equal_steps_are_one_run_though_others_stand_between():
    marks = [(n, "verify" if n % 2 else "rollback") for n in range(1000)]
    assert timeline.runs(lane(marks)) == [[0, 2, 500, timeline.EVENT], [1, 2, 500, timeline.DRAWN["verify"]]]


def test_more_runs_than_allowed_are_joined_without_losing_a_step():
    draw = random.Random(3)
    marks = [(place, "decode") for place in sorted(draw.sample(range(100_000), 5000))]
    bounded = timeline._bounded(timeline.runs(lane(marks)), 100)
    assert len(bounded) <= 100
    assert sum(count for _, _, count, _ in bounded) == 5000
    ends = [start + stride * (count - 1) for start, stride, count, _ in bounded]
    assert 99_000 < max(ends) <= marks[-1][0]


def test_sequences_that_never_meet_share_a_row():
    lanes = [lane([(n * 10, "prefill"), (n * 10 + 5, "decode")]) for n in range(40)]
    assert len(timeline.packed(lanes)) == 1
    overlapping = [lane([(n * 10, "prefill"), (n * 10 + 25, "decode")]) for n in range(40)]
    assert len(timeline.packed(overlapping)) == 3


def test_few_sequences_have_a_row_each():
    assert len(timeline.packed([lane([(n * 10, "prefill")]) for n in range(4)])) == 4


def test_step_numbers_are_runs():
    assert timeline.steps([5, 6, 7, None, 9, 20]) == [[0, 3, 5], [4, 1, 9], [5, 1, 20]]


def test_notes_are_counted_beside_the_steps_so_that_the_page_adds_up():
    held = told(DECODE, "- {step: 2, note: later}\n")
    assert timeline.summary(held).startswith("1 step of 1 sequence: 1 decode, and 1 note")
    assert held.report.summary.steps == 2


def test_the_summary_counts_what_is_drawn():
    assert timeline.summary(told(BLIND, DECODE)) == (
        "2 steps of 1 sequence: 1 prefill, 1 decode; findings at step 1."
    )


def test_a_finding_is_marked_at_its_step():
    (mark,) = embedded(
        rendered(DECODE.replace("step: 2", "step: 7"), BLIND.replace("step: 1", "step: 9")), "timeline-data"
    )["marks"][:1]
    assert (mark[0], mark[1]) == (1, "error")


def test_the_table_joins_neighbours_of_one_phase():
    more = [DECODE.replace("step: 2", f"step: {n}") for n in (2, 3, 4)]
    assert list(timeline._rows(told(BLIND, *more))) == [("1", "prefill", "a"), ("2–4", "decode", "a")]


def test_events_and_calls_are_told_to_the_script():
    trim = "- {step: 3, phase: trim, rows: [{seq: a, asked: 1, done: 1}]}\n"
    held = embedded(rendered(BLIND, DECODE, trim), "timeline-data")
    assert held["events"] == [[2, "trim"]]
    assert held["calls"] == [0, 1]


def test_joined_runs_reach_as_far_as_both_did():
    (run,) = timeline._bounded([[0, 10, 2, 1], [100, 10, 2, 1]], 1)
    start, stride, number, kind = run
    assert (start, number, kind) == (0, 4, 1)
    assert 100 < start + stride * (number - 1) <= 110
