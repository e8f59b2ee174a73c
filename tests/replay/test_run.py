"""Schedules on real mlx-lm code: healthy ones are clean by visibility and parity, broken ones are seen."""

import pytest

from mlxdiag.replay import experiment
from tests.replay.schedules import HEALTHY, fired, run
from tests.replay.traces import trace


@pytest.mark.parametrize("architecture", ["gemma3_text", "gemma4_text", "gpt_oss"])
@pytest.mark.parametrize("name", HEALTHY)
def test_a_healthy_schedule_is_clean_by_every_kind_of_evidence(name, architecture):
    ran = run(HEALTHY[name], architecture)
    assert ran.outcome.crash is None
    assert ran.report.findings == []
    assert ran.outcome.compared > 0
    assert ran.outcome.first_wrong is None
    assert (ran.outcome.empty, ran.outcome.wrong_window, ran.outcome.padding) == (0, 0, 0)


def test_padding_left_in_the_caches_is_seen_at_the_first_decode():
    ran = run(
        """{"step": 1, "rows": [{"seq": "a", "offset": 0, "tokens": 13, "padded": 16}], "output": [{"row": 15}]}
        {"step": 2, "rows": [{"seq": "a", "offset": 16, "tokens": 1}]}"""
    )
    assert ran.outcome.steps[0].padding == 0
    assert ran.outcome.steps[1].padding == 1
    assert ran.outcome.steps[1].first == 13
    assert {"MD206", "MD404", "MD304", "MD402"} <= fired(ran)


def test_a_trim_that_the_ring_refuses_is_not_taken_for_done():
    ran = run(
        """{"step": 1, "rows": [{"seq": "a", "offset": 0, "tokens": 12}]}
        {"step": 2, "phase": "rollback", "rows": [{"seq": "a", "asked": 2, "done": 2}]}
        {"step": 3, "rows": [{"seq": "a", "offset": 10, "tokens": 1}]}"""
    )
    assert ran.report.findings != []
    assert ran.outcome.steps[-1].first is not None


def test_a_clamped_continuation_narrows_the_window_without_an_error():
    ran = run(
        """{"step": 1, "rows": [{"seq": "a", "offset": 0, "tokens": 8}]}
        {"step": 2, "rows": [{"seq": "a", "offset": 8, "tokens": 8}], "attention": [{"family": "sliding", "offset": 8, "q": 8, "k": 8}]}"""
    )
    assert ran.outcome.crash is None
    assert "MD201" in fired(ran)
    assert ran.outcome.steps[1].wrong_window == 7


def test_shapes_level_reads_no_masks_and_still_compares_logits():
    prepared = experiment.prepare(trace(HEALTHY["two sequences by turns on one model"]), source="t.yaml")
    ran = experiment.run_policies(prepared, experiment.instance_for(prepared), ("strict",), level="shapes")[0]
    assert all(call.visible is None for e in ran.trace.entries for call in e.attention or [])
    assert ran.outcome.first_wrong is None


def test_quantised_caches_are_judged_by_what_is_attended_and_not_by_logits():
    ran = run(
        """{"step": 1, "rows": [{"seq": "a", "offset": 0, "tokens": 12}]}
        {"step": 2, "phase": "quantize", "rows": [{"seq": "a"}]}
        {"step": 3, "rows": [{"seq": "a", "offset": 12, "tokens": 5}]}
        {"step": 4, "rows": [{"seq": "a", "offset": 17, "tokens": 1}]}""",
        "llama",
        "scheduler: {kv_bits: 8}\n",
    )
    assert ran.report.findings == []
    assert ran.outcome.compared == 12
    assert sum(step.queries for step in ran.outcome.steps) == 18
    assert "quantised" in ran.notes[0]


def test_a_cache_that_cannot_be_quantised_ends_the_run_in_the_librarys_words():
    ran = run(
        """{"step": 1, "rows": [{"seq": "a", "offset": 0, "tokens": 12}]}
        {"step": 2, "phase": "quantize", "rows": [{"seq": "a"}]}
        {"step": 3, "rows": [{"seq": "a", "offset": 12, "tokens": 1}]}""",
        header="scheduler: {kv_bits: 8}\n",
    )
    assert ran.outcome.crash_step == 2
    assert "Quantization NYI" in ran.outcome.crash
    assert "MD904" in fired(ran)


NOT_GIVEN_BACK = {
    "all layers, the scheduler none the wiser": ({"asked": 3, "done": 1}, [], 2),
    "all layers, the scheduler follows the cache": ({"asked": 3, "done": 1}, [], 4),
    "the sliding layers alone": (
        {"asked": 3, "done": 3},
        [{"family": "sliding", "asked": 3, "done": 1}, {"family": "full", "asked": 3, "done": 3}],
        2,
    ),
}


@pytest.mark.parametrize("name", NOT_GIVEN_BACK)
def test_tokens_that_the_trace_says_stayed_behind_stay_behind(name, tmp_path):
    import json

    from mlxdiag.traces.reader import read
    from mlxdiag.traces.writer import dump

    row, calls, offset = NOT_GIVEN_BACK[name]
    cut = {"step": 2, "phase": "rollback", "rows": [{"seq": "a", **row}], "attention": calls}
    ran = run(
        f"""{{"step": 1, "rows": [{{"seq": "a", "offset": 0, "tokens": 5}}]}}
        {json.dumps(cut)}
        {{"step": 3, "rows": [{{"seq": "a", "offset": {offset}, "tokens": 1}}]}}"""
    )
    assert {"MD204", "MD304", "MD402"} <= fired(ran)
    assert "back 1 of 3 tokens, as the trace says" in (ran.trace.header.planted or "")
    dump(ran.trace, tmp_path / "again.yaml")
    prepared = experiment.prepare(read(tmp_path / "again.yaml"), source="again.yaml")
    again = experiment.run_policies(prepared, experiment.instance_for(prepared), ("strict",))[0]
    assert fired(again) == fired(ran)


def test_a_cut_that_took_all_there_was_leaves_nothing_behind():
    ran = run(
        """{"step": 1, "rows": [{"seq": "a", "offset": 0, "tokens": 5}]}
        {"step": 2, "phase": "trim", "rows": [{"seq": "a", "asked": 9, "done": 5}]}
        {"step": 3, "rows": [{"seq": "a", "offset": 0, "tokens": 6}]}"""
    )
    assert fired(ran) == set()


def test_without_caches_each_forward_is_a_whole_and_a_softmax_by_hand_is_seen():
    ran = run(
        '{"step": 1, "rows": [{"seq": "a", "offset": 0, "tokens": 12}]}',
        "gemma2_windowed",
        'scheduler: {"cacheless": true}\n',
    )
    assert {"MD302"} <= fired(ran)
    assert ran.outcome.compared == 12
    assert ran.outcome.first_wrong.step == 1


def test_every_pass_without_a_cache_is_compared_with_the_single_pass():
    ran = run(
        """{"step": 1, "rows": [{"seq": "a", "offset": 0, "tokens": 12}]}
        {"step": 2, "rows": [{"seq": "a", "offset": 0, "tokens": 13}]}
        {"step": 3, "rows": [{"seq": "a", "offset": 0, "tokens": 14}]}""",
        header='scheduler: {"cacheless": true}\n',
    )
    assert fired(ran) == set()
    assert ran.outcome.compared == 12 + 13 + 14
    assert [call.k for entry in ran.trace.entries for call in entry.attention or []] == [12] * 2 + [
        13
    ] * 2 + [14] * 2


def test_a_sequence_that_begins_again_goes_on_from_its_new_caches():
    ran = run(
        """{"step": 1, "rows": [{"seq": "a", "offset": 0, "tokens": 12}]}
        {"step": 2, "rows": [{"seq": "a", "offset": 0, "tokens": 14}], "attention": [{"family": "full", "offset": 0, "q": 14, "k": 14}]}
        {"step": 3, "rows": [{"seq": "a", "offset": 14, "tokens": 1}]}"""
    )
    assert fired(ran) == set()
    assert ran.outcome.compared == 12 + 14 + 1
