"""Rows that join, leave and go ahead of their batch, on real mlx-lm code."""

from tests.replay.schedules import fired, run


def test_a_filter_that_keeps_every_row_drops_the_padding_in_front_of_all():
    """mlx-lm's batch cache shifts left by the least padding; a server does so after each prompt."""
    ran = run(
        """{"step": 1, "rows": [{"seq": "a", "offset": 0, "tokens": 9, "right_padding": 2}, {"seq": "b", "offset": 0, "tokens": 4, "right_padding": 7}]}
        {"step": 2, "phase": "finalize", "rows": [{"seq": "a"}, {"seq": "b"}]}
        {"step": 3, "phase": "filter", "rows": [{"seq": "a"}, {"seq": "b"}]}
        {"step": 4, "rows": [{"seq": "a", "offset": 9, "tokens": 1}, {"seq": "b", "offset": 4, "tokens": 1}]}""",
        "llama",
    )
    assert [call.k for call in ran.trace.entries[-2].attention] == [10]
    assert ran.report.findings == []


def test_an_extracted_row_goes_on_from_its_copy_while_the_batch_goes_on_without_it():
    ran = run("""
        {"step": 1, "rows": [{"seq": "a", "offset": 0, "tokens": 9}, {"seq": "b", "offset": 0, "tokens": 9}]}
        {"step": 2, "phase": "decode", "rows": [{"seq": "a", "offset": 9, "tokens": 1}, {"seq": "b", "offset": 9, "tokens": 1}]}
        {"step": 3, "phase": "extract", "rows": [{"seq": "b"}]}
        {"step": 4, "phase": "filter", "rows": [{"seq": "a"}]}
        {"step": 5, "phase": "decode", "rows": [{"seq": "a", "offset": 10, "tokens": 1}]}
        {"step": 6, "rows": [{"seq": "b", "offset": 10, "tokens": 3}]}""")
    assert not fired(ran)
    calls = [call for entry in ran.trace.entries if entry.step == 6 for call in entry.attention or []]
    assert {call.cache for call in calls} == {"dense", "rotating"}


def test_a_copy_that_the_row_has_left_behind_is_not_used():
    ran = run("""
        {"step": 1, "rows": [{"seq": "a", "offset": 0, "tokens": 5}, {"seq": "b", "offset": 0, "tokens": 5}]}
        {"step": 2, "phase": "extract", "rows": [{"seq": "b"}]}
        {"step": 3, "phase": "decode", "rows": [{"seq": "a", "offset": 5, "tokens": 1}, {"seq": "b", "offset": 5, "tokens": 1}]}
        {"step": 4, "phase": "decode", "rows": [{"seq": "b", "offset": 6, "tokens": 1}]}""")
    assert not fired(ran)
    assert ran.outcome.compared == 13
