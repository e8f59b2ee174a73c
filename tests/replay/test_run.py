"""Schedules on real mlx-lm code: healthy ones are clean by visibility and parity, broken ones are seen."""

import pytest

from mlxdiag.errors import UnjudgedError
from mlxdiag.inspect.findings import codes
from mlxdiag.replay import experiment, verdict
from tests.replay.traces import trace


def run(steps: str, architecture: str = "gemma3_text", header: str = "", policy: str | None = None):
    prepared = experiment.prepare(trace(steps, architecture, header), source="t.yaml")
    instance = experiment.instance_for(prepared)
    return experiment.run_policies(prepared, instance, (policy or prepared.plan.misfit,))[0]


def fired(ran):
    return codes(f for f in ran.report.findings if f.severity != "info")


HEALTHY = {
    "chunks below, at and above the window, then decode": """
        {"step": 1, "rows": [{"seq": "a", "offset": 0, "tokens": 5}]}
        {"step": 2, "rows": [{"seq": "a", "offset": 5, "tokens": 8}]}
        {"step": 3, "rows": [{"seq": "a", "offset": 13, "tokens": 11}]}
        {"step": 4, "rows": [{"seq": "a", "offset": 24, "tokens": 1}]}
        {"step": 5, "rows": [{"seq": "a", "offset": 25, "tokens": 1}]}
        {"step": 6, "rows": [{"seq": "a", "offset": 26, "tokens": 3}]}""",
    "tail trim inside the window, then another ending": """
        {"step": 1, "rows": [{"seq": "a", "offset": 0, "tokens": 6}]}
        {"step": 2, "phase": "trim", "rows": [{"seq": "a", "asked": 3, "done": 3}]}
        {"step": 3, "rows": [{"seq": "a", "offset": 3, "tokens": 9}]}""",
    "a verify block with a rejected draft": """
        {"step": 1, "rows": [{"seq": "a", "offset": 0, "tokens": 3}]}
        {"step": 2, "phase": "verify", "rows": [{"seq": "a", "offset": 3, "tokens": 3}]}
        {"step": 3, "phase": "rollback", "rows": [{"seq": "a", "asked": 2, "done": 2}]}
        {"step": 4, "phase": "verify", "rows": [{"seq": "a", "offset": 4, "tokens": 2}]}
        {"step": 5, "rows": [{"seq": "a", "offset": 6, "tokens": 1}]}""",
    "an adopted prefix, cut before the window is full": """
        {"step": 1, "phase": "adopt", "rows": [{"seq": "a", "matched": 4, "entry": 7, "trimmed": 3, "restored": 4}]}
        {"step": 2, "rows": [{"seq": "a", "offset": 4, "tokens": 10}]}
        {"step": 3, "rows": [{"seq": "a", "offset": 14, "tokens": 1}]}""",
    "left-padded rows, one leaves": """
        {"step": 1, "rows": [{"seq": "a", "offset": 0, "tokens": 9}, {"seq": "b", "offset": 0, "tokens": 4, "left_padding": 5}]}
        {"step": 2, "rows": [{"seq": "a", "offset": 9, "tokens": 1}, {"seq": "b", "offset": 4, "tokens": 1}]}
        {"step": 3, "phase": "filter", "rows": [{"seq": "b"}]}
        {"step": 4, "rows": [{"seq": "b", "offset": 5, "tokens": 1}]}""",
    "right-padded rows, finalized, a third joins": """
        {"step": 1, "rows": [{"seq": "a", "offset": 0, "tokens": 9}, {"seq": "b", "offset": 0, "tokens": 4, "right_padding": 5}]}
        {"step": 2, "phase": "finalize", "rows": [{"seq": "a"}, {"seq": "b"}]}
        {"step": 3, "rows": [{"seq": "a", "offset": 9, "tokens": 1}, {"seq": "b", "offset": 4, "tokens": 1}]}
        {"step": 4, "rows": [{"seq": "c", "offset": 0, "tokens": 6}]}
        {"step": 5, "rows": [{"seq": "a", "offset": 10, "tokens": 1}, {"seq": "b", "offset": 5, "tokens": 1}, {"seq": "c", "offset": 6, "tokens": 1}]}""",
    "a decode beside another's prompt, packed": """
        {"step": 1, "rows": [{"seq": "a", "offset": 0, "tokens": 9}]}
        {"step": 2, "rows": [{"seq": "a", "offset": 9, "tokens": 1, "phase": "decode"}, {"seq": "b", "offset": 0, "tokens": 6, "phase": "prefill"}]}
        {"step": 3, "rows": [{"seq": "a", "offset": 10, "tokens": 1}, {"seq": "b", "offset": 6, "tokens": 1}]}""",
    "a row that is scheduled for nothing": """
        {"step": 1, "rows": [{"seq": "a", "offset": 0, "tokens": 4}, {"seq": "b", "offset": 0, "tokens": 4}]}
        {"step": 2, "rows": [{"seq": "a", "offset": 4, "tokens": 1}, {"seq": "b", "offset": 4, "tokens": 0}]}
        {"step": 3, "rows": [{"seq": "a", "offset": 5, "tokens": 1}, {"seq": "b", "offset": 4, "tokens": 1}]}""",
    "saved to a file and loaded in the middle": """
        {"step": 1, "rows": [{"seq": "a", "offset": 0, "tokens": 12}]}
        {"step": 2, "phase": "save", "rows": [{"seq": "a"}]}
        {"step": 3, "phase": "load", "rows": [{"seq": "a"}]}
        {"step": 4, "rows": [{"seq": "a", "offset": 12, "tokens": 4}]}
        {"step": 5, "rows": [{"seq": "a", "offset": 16, "tokens": 1}]}""",
    "a file loaded before anything was fed": """
        {"step": 0, "phase": "load", "rows": [{"seq": "a", "restored": 12}]}
        {"step": 0, "rows": [{"seq": "a", "offset": 12, "tokens": 4}]}
        {"step": 1, "rows": [{"seq": "a", "offset": 16, "tokens": 1}]}""",
    "one row of a batch goes ahead, the others are fed on, then it is joined again": """
        {"step": 0, "phase": "merge", "rows": [{"seq": "a"}, {"seq": "b"}, {"seq": "c"}]}
        {"step": 0, "rows": [{"seq": "a", "tokens": 9}, {"seq": "b", "tokens": 4, "right_padding": 5}, {"seq": "c", "tokens": 9}]}
        {"step": 0, "phase": "finalize", "rows": [{"seq": "a"}, {"seq": "b"}, {"seq": "c"}]}
        {"step": 0, "phase": "extract", "rows": [{"seq": "b"}]}
        {"step": 0, "phase": "save", "rows": [{"seq": "b"}]}
        {"step": 0, "phase": "filter", "rows": [{"seq": "a"}, {"seq": "c"}]}
        {"step": 1, "phase": "decode", "rows": [{"seq": "b", "offset": 4, "tokens": 1}]}
        {"step": 2, "rows": [{"seq": "a", "offset": 9, "tokens": 3}, {"seq": "c", "offset": 9, "tokens": 3}]}
        {"step": 2, "phase": "extend", "rows": [{"seq": "b"}, {"seq": "a"}, {"seq": "c"}]}
        {"step": 3, "rows": [{"seq": "b", "offset": 5, "tokens": 1}, {"seq": "a", "offset": 12, "tokens": 1}, {"seq": "c", "offset": 12, "tokens": 1}]}""",
    "two sequences by turns on one model": """
        {"step": 1, "rows": [{"seq": "a", "offset": 0, "tokens": 9}]}
        {"step": 2, "rows": [{"seq": "b", "offset": 0, "tokens": 5}]}
        {"step": 3, "rows": [{"seq": "a", "offset": 9, "tokens": 4}]}
        {"step": 4, "rows": [{"seq": "b", "offset": 5, "tokens": 7}]}""",
}


@pytest.mark.parametrize("architecture", ["gemma3_text", "gemma4_text", "gpt_oss"])
@pytest.mark.parametrize("name", HEALTHY)
def test_a_healthy_schedule_is_clean_by_every_kind_of_evidence(name, architecture):
    ran = run(HEALTHY[name], architecture)
    assert ran.outcome.crash is None
    assert ran.report.findings == []
    assert ran.outcome.compared > 0
    assert ran.outcome.first_wrong is None
    assert (ran.outcome.empty, ran.outcome.wrong_window, ran.outcome.padding) == (0, 0, 0)


def test_a_key_cap_is_no_difference_when_each_query_is_held_to_the_keys_it_was_left():
    ran = run(
        """{"step": 1, "rows": [{"seq": "a", "offset": 0, "tokens": 8}]}
        {"step": 2, "rows": [{"seq": "a", "offset": 8, "tokens": 8}]}
        {"step": 3, "rows": [{"seq": "a", "offset": 16, "tokens": 8}]}
        {"step": 4, "rows": [{"seq": "a", "offset": 24, "tokens": 1}]}""",
        "llama",
        "scheduler: {max_kv: 12, keep: 2}\n",
    )
    assert [call.k for e in ran.trace.entries for call in e.attention or []] == [8, 16, 20, 13]
    assert ran.report.findings == []
    assert ran.outcome.first_wrong is None


OFFSET_ZERO = """
    {"step": 1, "rows": [{"seq": "a", "offset": 0, "tokens": 12}]}
    {"step": 2, "rows": [{"seq": "a", "offset": 12, "tokens": 5}], "mask": {"shape": [5, 5], "offset": 0}}"""


def test_strict_reproduces_the_librarys_own_error_with_both_shapes():
    ran = run(OFFSET_ZERO, policy="strict")
    assert ran.outcome.crash_step == 2
    assert "[broadcast_shapes] Shapes (5,5) and (1,4,5,12)" in ran.outcome.crash
    assert {"MD101", "MD105", "MD901"} <= fired(ran)


def test_raise_ends_the_run_like_the_first_version_of_the_fix():
    ran = run(OFFSET_ZERO, policy="raise")
    assert "mask key axis (5) is shorter than the returned key length" in ran.outcome.crash


@pytest.mark.parametrize("policy", ["discard:windowed", "rebuild"])
def test_a_fallback_that_equals_the_window_mask_changes_nothing(policy):
    outcome = run(OFFSET_ZERO, policy=policy).outcome
    assert (outcome.crash, outcome.wrong_window, outcome.first_wrong) == (None, 0, None)
    assert outcome.max_abs < outcome.tolerance


@pytest.mark.parametrize(
    ("policy", "empty"), [("discard:causal", 0), ("discard:none", 0), ("discard:sliced", 0), ("crop:new", 0)]
)
def test_every_other_fallback_is_seen_by_visibility_and_by_parity(policy, empty):
    outcome = run(OFFSET_ZERO, policy=policy).outcome
    assert outcome.empty == empty
    assert outcome.wrong_window > 0
    assert outcome.first_wrong is not None
    assert outcome.max_abs > 10 * outcome.tolerance


def test_a_capped_mask_with_sliced_keys_strands_rows_and_gives_nan():
    ran = run(
        """{"step": 1, "rows": [{"seq": "a", "offset": 0, "tokens": 20}], "mask":
        {"shape": [20, 8], "offset": 0, "builder": "capped", "family": "sliding"}}""".replace("\n", " "),
        policy="crop:old",
    )
    assert ran.outcome.empty == 12
    assert ran.outcome.nan > 0
    assert {"MD301", "MD401"} <= fired(ran)


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


def test_a_band_that_is_missing_has_right_lengths_and_wrong_keys():
    ran = run(
        '{"step": 1, "rows": [{"seq": "a", "offset": 0, "tokens": 14}], "mask": '
        '{"shape": [14, 14], "offset": 0, "builder": "causal"}}'
    )
    assert all(call.k == call.mask[-1] for call in ran.trace.entries[1].attention)
    assert ran.outcome.wrong_window == 6
    assert ran.outcome.steps[0].first == 8


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


@pytest.mark.parametrize(("policy", "right"), [("rebuild", True), ("discard:none", False)])
def test_a_softmax_computed_by_hand_gets_its_policy_where_the_mask_is_made(policy, right):
    outcome = run(
        """{"step": 1, "rows": [{"seq": "a", "offset": 0, "tokens": 6}]}
        {"step": 2, "rows": [{"seq": "a", "offset": 6, "tokens": 5}], "mask": {"shape": [5, 5], "offset": 0}}""",
        "gemma2",
        policy=policy,
    ).outcome
    assert outcome.crash is None
    assert (outcome.first_wrong is None) is right
    assert (outcome.wrong_window == 0) is right


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


UNDER_A_CAP = {
    "more sinks than the cap holds": (
        "scheduler: {max_kv: 3, keep: 9}\n",
        """{"step": 1, "rows": [{"seq": "a", "offset": 0, "tokens": 4}]}
        {"step": 2, "rows": [{"seq": "a", "offset": 4, "tokens": 4}]}
        {"step": 3, "rows": [{"seq": "a", "offset": 8, "tokens": 1}]}""",
    ),
    "tokens taken back and fed anew, when other keys were gone": (
        "scheduler: {max_kv: 6}\n",
        """{"step": 1, "rows": [{"seq": "a", "offset": 0, "tokens": 4}]}
        {"step": 2, "rows": [{"seq": "a", "offset": 4, "tokens": 4}]}
        {"step": 3, "phase": "trim", "rows": [{"seq": "a", "asked": 2, "done": 2}]}
        {"step": 4, "rows": [{"seq": "a", "offset": 6, "tokens": 1}]}
        {"step": 5, "rows": [{"seq": "a", "offset": 7, "tokens": 1}]}""",
    ),
}


@pytest.mark.parametrize("name", UNDER_A_CAP)
def test_the_single_pass_holds_each_token_to_the_keys_that_were_left_when_it_was_fed(name):
    header, steps = UNDER_A_CAP[name]
    assert fired(run(steps, "llama", header)) == set()


def test_a_batch_that_was_given_plain_causal_over_left_padding_is_run_that_way():
    ran = run(
        """{"step": 1, "rows": [{"seq": "a", "offset": 0, "tokens": 9}, {"seq": "b", "offset": 0, "tokens": 4, "left_padding": 5}],
        "attention": [{"family": "full", "q": 9, "k": 9, "mask": "causal"}]}""".replace("],\n", "], "),
        "llama",
    )
    assert ran.outcome.padding == 4
    assert {"MD501", "MD304", "MD402"} <= fired(ran)
    assert ran.outcome.steps[0].first == 0


def test_a_sliding_layer_that_was_given_plain_causal_past_its_window_is_run_that_way():
    ran = run(
        """{"step": 1, "rows": [{"seq": "a", "offset": 0, "tokens": 14}],
        "attention": [{"family": "sliding", "q": 14, "k": 14, "mask": "causal"}]}""".replace("],\n", "], ")
    )
    assert ran.outcome.wrong_window == 6
    assert "MD108" in fired(ran)


def test_several_queries_that_were_given_no_mask_see_what_comes_later():
    ran = run(
        """{"step": 1, "rows": [{"seq": "a", "offset": 0, "tokens": 6}],
        "attention": [{"family": "full", "q": 6, "k": 6, "mask": null}]}""".replace("],\n", "], "),
        "llama",
    )
    assert ran.outcome.wrong_window == 5
    assert "MD303" in fired(ran)


def test_a_fault_that_the_single_pass_shares_is_told_as_the_librarys():
    """mlx-lm's gemma2 builds one causal mask for every layer, so its window is never enforced."""
    ran = run('{"step": 1, "rows": [{"seq": "a", "offset": 0, "tokens": 14}]}', "gemma2_windowed")
    assert ran.outcome.wrong_window == 6
    assert ran.outcome.steps[0].first is None
    assert "it is the library's" in verdict.sentences(ran)[0]


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


def test_without_caches_each_forward_is_a_whole_and_a_softmax_by_hand_is_seen():
    ran = run(
        '{"step": 1, "rows": [{"seq": "a", "offset": 0, "tokens": 12}]}',
        "gemma2_windowed",
        'scheduler: {"cacheless": true}\n',
    )
    assert {"MD302"} <= fired(ran)
    assert ran.outcome.compared == 12
    assert ran.outcome.first_wrong.step == 1


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


def test_a_family_that_fails_in_its_own_single_pass_is_not_judged_and_says_why(monkeypatch):
    """mlx-lm's gemma3_text looks for the cache of its sixth layer, however few it has."""
    prepared = experiment.prepare(trace(HEALTHY["two sequences by turns on one model"]), source="t.yaml")
    instance = experiment.instance_for(prepared)

    def broken(self, tokens, cache=None):
        raise IndexError("list index out of range")

    monkeypatch.setattr(type(instance.model), "__call__", broken)
    with pytest.raises(UnjudgedError, match=r"fails in its own pass of \d+ tokens: IndexError: list index"):
        experiment.run_policies(prepared, instance, ("strict",))
