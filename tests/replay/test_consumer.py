"""Masks of the caller's and what each policy makes of them, on real mlx-lm code."""

import pytest

from tests.replay.schedules import OFFSET_ZERO, fired, run


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


def test_a_band_that_is_missing_has_right_lengths_and_wrong_keys():
    ran = run(
        '{"step": 1, "rows": [{"seq": "a", "offset": 0, "tokens": 14}], "mask": '
        '{"shape": [14, 14], "offset": 0, "builder": "causal"}}'
    )
    assert all(call.k == call.mask[-1] for call in ran.trace.entries[1].attention)
    assert ran.outcome.wrong_window == 6
    assert ran.outcome.steps[0].first == 8


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
