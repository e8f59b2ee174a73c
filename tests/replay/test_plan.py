"""A plan is data: what would run, what was filled in, and what is refused. No model is built here."""

import pytest

from mlxdiag.errors import UnjudgedError, UnreadableError
from mlxdiag.replay import plan, prompts
from mlxdiag.replay.ops import Adopt, Cut, Event, Evict, Feed, Forward, Regroup
from mlxdiag.traces.reader import parse
from mlxdiag.traces.types import Family
from tests.replay.plans import lay


def test_chunks_and_decode_follow_each_other():
    laid = lay(
        """{"step": 1, "rows": [{"seq": "a", "offset": 0, "tokens": 5}]}
        {"step": 2, "rows": [{"seq": "a", "offset": 5, "tokens": 5}]}
        {"step": 3, "rows": [{"seq": "a", "offset": 10, "tokens": 1}]}"""
    )
    assert [(op.phase, op.feeds[0].start, op.feeds[0].tokens) for op in laid.forwards] == [
        ("prefill", 0, 5),
        ("chunk", 5, 5),
        ("decode", 10, 1),
    ]
    assert laid.lengths == {"a": 11}
    assert laid.notes == ()


def test_a_trace_that_begins_in_the_middle_gets_the_missing_prefix_in_chunks():
    laid = lay(
        '{"step": 5, "rows": [{"seq": "a", "offset": 20, "tokens": 3}]}', header="scheduler: {chunk: 8}\n"
    )
    assert [op.feeds[0].tokens for op in laid.forwards] == [8, 8, 4, 3]
    assert [bool(op.assumed) for op in laid.forwards] == [True, True, True, False]
    assert "20 tokens before step 5 are not in the trace" in laid.notes[0]


def test_packed_rows_are_run_one_by_one_and_that_is_said_once():
    laid = lay(
        """{"step": 1, "rows": [{"seq": "a", "offset": 0, "tokens": 5}]}
        {"step": 2, "rows": [{"seq": "a", "offset": 5, "tokens": 1}, {"seq": "b", "offset": 0, "tokens": 4}]}
        {"step": 3, "rows": [{"seq": "a", "offset": 6, "tokens": 1}, {"seq": "c", "offset": 0, "tokens": 2}]}"""
    )
    assert [len(op.feeds) for op in laid.forwards] == [1, 1, 1, 1, 1]
    (note,) = laid.notes
    assert note.startswith("step 2 and 1 more: rows of different lengths without padding are run one by one")


def test_tile_padding_counts_for_the_cache_and_not_for_the_tokens():
    laid = lay(
        """{"step": 1, "rows": [{"seq": "a", "offset": 0, "tokens": 5, "padded": 8}]}
        {"step": 2, "rows": [{"seq": "a", "offset": 8, "tokens": 1}]}"""
    )
    first, second = (op.feeds[0] for op in laid.forwards)
    assert first.codes == [0, 1, 2, 3, 4, -1, -1, -1]
    assert (second.start, second.believed) == (5, 8)


def test_trimmed_padding_leaves_the_next_token_where_it_was():
    laid = lay(
        """{"step": 1, "rows": [{"seq": "a", "offset": 0, "tokens": 5, "padded": 8}]}
        {"step": 2, "phase": "trim", "rows": [{"seq": "a", "asked": 3, "done": 3}]}
        {"step": 3, "rows": [{"seq": "a", "offset": 5, "tokens": 1}]}"""
    )
    assert isinstance(laid.ops[1], Cut)
    assert laid.ops[1].tokens == 3
    assert laid.forwards[-1].feeds[0] == Feed("a", 5, 1, believed=5)


def test_a_rejected_draft_and_its_replacement_share_a_position_but_not_a_code():
    laid = lay(
        """{"step": 1, "rows": [{"seq": "a", "offset": 0, "tokens": 4}]}
        {"step": 2, "phase": "verify", "rows": [{"seq": "a", "offset": 4, "tokens": 3}]}
        {"step": 3, "phase": "rollback", "rows": [{"seq": "a", "asked": 2, "done": 2}]}
        {"step": 4, "rows": [{"seq": "a", "offset": 5, "tokens": 1}]}"""
    )
    drafted, kept = laid.forwards[1].feeds[0], laid.forwards[2].feeds[0]
    assert kept.start == 5
    assert kept.codes[0] not in drafted.codes
    assert laid.lengths == {"a": 7}


def test_the_callers_mask_is_recognised_by_shape_and_offset():
    laid = lay(
        """{"step": 1, "rows": [{"seq": "a", "offset": 0, "tokens": 16}]}
        {"step": 2, "rows": [{"seq": "a", "offset": 16, "tokens": 5, "padded": 8}], "mask": {"shape": [8, 8], "offset": 0}}"""
    )
    (caller,) = laid.forwards[1].callers
    assert (caller.builder, caller.offset, caller.real) == ("padded", 0, 5)
    assert "caller's padded mask" in laid.planted[0]


def test_a_recorded_misfit_is_handed_to_its_own_family_alone():
    laid = lay(
        """{"step": 1, "rows": [{"seq": "a", "offset": 0, "tokens": 12}], "attention": [
        {"family": "sliding", "offset": 0, "q": 12, "k": 12, "mask": [12, 8]},
        {"family": "full", "offset": 0, "q": 12, "k": 12, "mask": "causal"}]}""".replace("\n", " ")
    )
    (caller,) = laid.forwards[0].callers
    assert (caller.builder, caller.family, caller.shape) == ("capped", "sliding", (12, 8))
    assert caller.offset == 0, "a mask capped to the window says nothing of a stale offset"


def test_a_key_cap_evicts_after_every_forward():
    laid = lay(
        """{"step": 1, "rows": [{"seq": "a", "offset": 0, "tokens": 6}]}
        {"step": 2, "rows": [{"seq": "a", "offset": 6, "tokens": 6}]}""",
        header="scheduler: {max_kv: 8, keep: 2}\n",
    )
    assert [op for op in laid.ops if isinstance(op, Evict)] == [
        Evict(1, ("a",), 8, 2),
        Evict(2, ("a",), 8, 2),
    ]
    assert laid.caches["full"].kind == "front_trim"


def test_a_clamped_continuation_is_recognised_by_its_key_count():
    laid = lay(
        """{"step": 1, "rows": [{"seq": "a", "offset": 0, "tokens": 8}]}
        {"step": 2, "rows": [{"seq": "a", "offset": 8, "tokens": 8}], "attention": [
        {"family": "sliding", "offset": 8, "q": 8, "k": 8}]}""".replace("[\n", "[ ")
    )
    assert laid.caches["sliding"].kind == "clamped"


def test_a_healthy_ring_is_left_to_the_library():
    laid = lay(
        """{"step": 1, "rows": [{"seq": "a", "offset": 0, "tokens": 8}]}
        {"step": 2, "rows": [{"seq": "a", "offset": 8, "tokens": 8}], "attention": [
        {"family": "sliding", "offset": 8, "q": 8, "k": 15}]}""".replace("[\n", "[ ")
    )
    assert laid.caches == {}


def test_ragged_rows_are_one_batch_and_their_padding_is_on_the_side_the_trace_says():
    laid = lay(
        """{"step": 1, "rows": [{"seq": "a", "offset": 0, "tokens": 6}, {"seq": "b", "offset": 0, "tokens": 2, "left_padding": 4}]}
        {"step": 2, "phase": "filter", "rows": [{"seq": "b"}]}
        {"step": 3, "rows": [{"seq": "b", "offset": 2, "tokens": 1}]}"""
    )
    assert laid.forwards[0].batched
    assert laid.forwards[0].feeds[1].codes == [-1, -1, -1, -1, 0, 1]
    assert laid.ops[1] == Regroup(2, "filter", ("b",))


def test_right_padding_waits_for_its_finalize():
    laid = lay(
        """{"step": 1, "rows": [{"seq": "a", "offset": 0, "tokens": 6}, {"seq": "b", "offset": 0, "tokens": 2, "right_padding": 4}]}
        {"step": 2, "phase": "finalize", "rows": [{"seq": "a"}, {"seq": "b"}]}
        {"step": 3, "rows": [{"seq": "a", "offset": 6, "tokens": 1}, {"seq": "b", "offset": 2, "tokens": 1}]}"""
    )
    assert laid.forwards[0].finalize_pending
    assert not laid.forwards[1].finalize_pending
    assert isinstance(laid.ops[1], Event)
    assert [feed.start for feed in laid.forwards[1].feeds] == [6, 2]


def test_an_adopted_prefix_goes_on_after_what_was_restored():
    laid = lay(
        """{"step": 1, "phase": "adopt", "rows": [{"seq": "a", "matched": 6, "entry": 10, "trimmed": 4, "restored": 6}]}
        {"step": 2, "rows": [{"seq": "a", "offset": 6, "tokens": 3}]}"""
    )
    assert laid.ops[0] == Adopt(1, "a", 6, 10, 4)
    assert laid.forwards[0].feeds[0].start == 6


def test_the_recorded_fallback_is_the_default_policy():
    laid = lay(
        """{"step": 1, "rows": [{"seq": "a", "offset": 0, "tokens": 12}], "attention": [
        {"family": "sliding", "offset": 0, "q": 12, "k": 12, "mask": [12, 9], "fate": "discarded", "fallback": "windowed"}]}""".replace(
            "\n", " "
        )
    )
    assert laid.misfit == "discard:windowed"


@pytest.mark.parametrize(
    ("steps", "says"),
    [
        (
            """{"step": 1, "rows": [{"seq": "a", "offset": 0, "tokens": 4}]}
            {"step": 7, "phase": "trim", "rows": [{"seq": "a", "asked": 5}]}""",
            r"t\.yaml: step 7: rows\[0\]\.asked: 5 tokens trimmed of a, which holds 4",
        ),
        (
            """{"step": 1, "rows": [{"seq": "a", "offset": 0, "tokens": 4}]}
            {"step": 2, "rows": [{"seq": "a", "offset": 2, "tokens": 4}]}""",
            r"step 2: rows\[0\]\.offset: a goes back to 2 while it holds 4",
        ),
        (
            """{"step": 1, "phase": "rollback", "rows": [{"seq": "a", "asked": 5}]}""",
            r"step 1: rows\[0\]\.seq: a has not been fed before",
        ),
        (
            """{"step": 1, "rows": [{"seq": "a", "offset": 0, "tokens": 4}], "mask": {"shape": [4, 4], "offset": 9}}""",
            r"step 1: mask\.shape: no mask builder gives \[4, 4\] at offset 9",
        ),
        (
            """{"step": 1, "phase": "adopt", "rows": [{"seq": "a", "matched": 9, "entry": 4}]}""",
            r"step 1: rows\[0\]\.matched: 9 of an entry of 4 tokens",
        ),
        (
            """{"step": 1, "phase": "adopt", "rows": [{"seq": "a", "matched": 3, "entry": 4, "restored": 9}]}""",
            r"step 1: rows\[0\]\.restored: 9 of an entry of 4 tokens",
        ),
        (
            """{"step": 1, "phase": "adopt", "rows": [{"seq": "a", "matched": 3, "entry": 4, "trimmed": -2}]}""",
            r"step 1: rows\[0\]\.trimmed: -2 of an entry of 4 tokens",
        ),
        (
            """{"step": 1, "rows": [{"seq": "a", "tokens": 4}, {"seq": "a", "tokens": 4}]}""",
            r"step 1: rows\[1\]\.seq: a stands twice in one batch",
        ),
        (
            """{"rows": [{"seq": "a", "tokens": 4}]}
            {"phase": "trim", "rows": [{"seq": "a", "asked": -2}]}""",
            r"t\.yaml: entry 2: rows\[0\]\.asked: -2 tokens cannot be taken back",
        ),
        (
            """{"step": 1, "rows": [{"seq": "a", "tokens": 4}]}
            {"step": 2, "phase": "evict", "rows": [{"seq": "a", "size": 0}]}""",
            r"step 2: rows\[0\]\.size: an eviction down to 0 keys leaves none",
        ),
        (
            """{"step": 1, "rows": [{"seq": "a", "tokens": 4}], "mask": {"shape": [4, 4], "family": "nope"}}""",
            r"step 1: mask\.family: no 'nope' layers; known: sliding, full",
        ),
    ],
)
def test_an_impossible_schedule_names_file_step_and_field(steps, says):
    with pytest.raises(UnreadableError, match=says):
        lay(steps)


@pytest.mark.parametrize("name", ["chunk", "max_kv", "keep"])
def test_a_scheduler_of_less_than_nothing_is_refused(name):
    with pytest.raises(UnreadableError, match=rf"scheduler\.{name}: -1 tokens cannot be"):
        lay('{"step": 1, "rows": [{"seq": "a", "offset": 9, "tokens": 1}]}', f"scheduler: {{{name}: -1}}\n")


def test_a_mask_of_its_own_for_every_row_is_not_taken_for_one_without_padding():
    with pytest.raises(UnjudgedError, match=r"step 1: mask\.shape: \[2, 1, 5, 5\] differs by row"):
        lay(
            """{"step": 1, "rows": [{"seq": "a", "tokens": 5}, {"seq": "b", "tokens": 3, "left_padding": 2}],
            "mask": {"shape": [2, 1, 5, 5], "offset": 0}}""".replace("\n", " ")
        )


def test_a_recorded_policy_that_nobody_knows_is_refused():
    with pytest.raises(UnreadableError, match=r"scheduler\.misfit: 'shrug' is unknown; known: strict"):
        lay('{"step": 1, "rows": [{"seq": "a", "tokens": 1}]}', "scheduler: {misfit: shrug}\n")


def test_what_a_cache_held_after_an_adoption_decides_over_what_was_said_to_be_cut():
    laid = lay(
        """{"step": 1, "phase": "adopt", "rows": [{"seq": "a", "matched": 5, "entry": 5, "trimmed": 0, "restored": 4}]}
        {"step": 2, "rows": [{"seq": "a", "offset": 4, "tokens": 1}]}"""
    )
    assert laid.ops[0] == Adopt(1, "a", 5, 5, 1)


HUGE = 10**19


@pytest.mark.parametrize(
    "steps",
    [
        f'{{"step": 1, "rows": [{{"seq": "a", "tokens": {HUGE}}}]}}',
        f'{{"step": 1, "rows": [{{"seq": "a", "tokens": 1, "padded": {HUGE}}}]}}',
        f'{{"step": 1, "rows": [{{"seq": "a", "offset": {HUGE}, "tokens": 1}}]}}',
        f'{{"step": 1, "rows": [{{"seq": "a", "tokens": 1}}], "attention": [{{"family": "full", "q": {HUGE}}}]}}',
        f'{{"step": 1, "rows": [{{"seq": "a", "tokens": 3}}], "mask": {{"shape": [3, {HUGE}]}}}}',
        f'{{"step": 1, "phase": "adopt", "rows": [{{"seq": "a", "matched": {HUGE}, "entry": {HUGE}}}]}}',
    ],
)
def test_what_no_machine_holds_is_refused_before_anything_of_its_size_is_made(steps):
    with pytest.raises(UnjudgedError, match=r"t\.yaml: step 1.*more than a replay (holds|builds)"):
        lay(steps)


def test_steps_without_a_number_are_called_by_their_place_and_fillers_by_the_step_they_stand_before():
    laid = lay(
        """{"rows": [{"seq": "a", "offset": 0, "tokens": 4}]}
        {"rows": [{"seq": "a", "offset": 9, "tokens": 1}]}"""
    )
    assert [(op.step, bool(op.assumed)) for op in laid.forwards] == [(1, False), (2, True), (2, False)]
    assert laid.notes == ("a: 5 tokens before entry 2 are not in the trace; fed in pieces of 5",)


def test_a_step_that_feeds_nothing_is_left_out_and_named():
    laid = lay(
        """{"step": 1, "rows": [{"seq": "a", "tokens": 4}]}
        {"step": 2, "rows": [{"seq": "a", "tokens": 0}]}
        {"step": 3, "rows": [{"seq": "a", "tokens": 1}]}"""
    )
    assert [op.step for op in laid.forwards] == [1, 3]
    assert laid.notes == ("step 2: nothing was fed, nothing to run",)


def test_many_steps_that_feed_nothing_are_one_note():
    laid = lay(
        """{"step": 1, "rows": [{"seq": "a", "tokens": 4}]}
        {"step": 2, "phase": "decode", "rows": [{"seq": "b", "emitted": 1, "classes": "t"}]}
        {"step": 3, "phase": "decode", "rows": [{"seq": "b", "emitted": 1, "classes": "t"}]}"""
    )
    assert laid.notes == ("step 2 and 1 more: nothing was fed, nothing to run",)


def test_an_eviction_without_a_cap_in_the_header_still_needs_a_cache_that_evicts():
    laid = lay(
        """{"step": 1, "rows": [{"seq": "a", "tokens": 4}]}
        {"step": 2, "phase": "evict", "rows": [{"seq": "a", "size": 2}]}"""
    )
    assert laid.caches["full"].kind == "front_trim"


def test_a_trace_without_forwards_is_not_clean_but_unjudged():
    with pytest.raises(UnjudgedError, match="holds no forward"):
        lay('{"phase": "end", "exit": 0}')


def test_a_trace_without_a_model_says_what_to_add():
    from mlxdiag.traces.reader import parse

    with pytest.raises(UnreadableError, match=r"model: \{architecture: gemma4_text\}"):
        plan.model_of(parse('schema: mlxdiag.trace/1\nsteps:\n- {"step": 1, "rows": [{"tokens": 4}]}\n'))


def test_forwards_are_kept_apart_by_model():
    laid = lay(
        """{"step": 1, "model": "m1", "rows": [{"seq": "a", "offset": 0, "tokens": 4}]}
        {"step": 2, "model": "m2", "rows": [{"seq": "d", "offset": 0, "tokens": 4}]}"""
    )
    assert [op.feeds[0].seq for op in laid.forwards] == ["a"]
    assert isinstance(laid.ops[0], Forward)
    assert "only m1 is replayed" in laid.notes[0]


def test_pinned_sinks_under_a_cap_are_the_mark_of_the_librarys_own():
    layers = "layers: {full: {attention: full, cache: rotating, keep: 4}}"
    header = "scheduler: {max_kv: 8, keep: 4}\n"
    steps = '{"step": 1, "rows": [{"seq": "a", "offset": 0, "tokens": 12}]}'
    families = {"full": Family(attention="full", cache="dense", layers=[0])}
    text = f"schema: mlxdiag.trace/1\n{header}model: {{architecture: mixtral, {layers}}}\nsteps:\n- {steps}\n"
    laid = plan.lay(parse(text), families)
    choice = laid.caches["full"]
    assert (choice.kind, choice.cap, choice.sinks) == ("capped", 8, 4)
    assert not any(isinstance(op, Evict) for op in laid.ops)


def test_what_is_adopted_from_a_store_begins_as_what_was_saved_last():
    text = """schema: mlxdiag.trace/1
scheduler: {store: trie}
model: {architecture: llama}
steps:
- {"step": 1, "rows": [{"seq": "a", "offset": 0, "tokens": 7}]}
- {"step": 2, "phase": "save", "rows": [{"seq": "a"}]}
- {"step": 3, "phase": "adopt", "rows": [{"seq": "b", "matched": 4, "entry": 7, "trimmed": 3, "restored": 4}]}
- {"step": 4, "rows": [{"seq": "b", "offset": 4, "tokens": 9}]}
"""
    families = {"full": Family(attention="full", cache="dense", layers=[0])}
    laid = plan.lay(parse(text), families)
    assert laid.shared == {"b": ("a", 4)}
    made = prompts.prompts(laid, 64)
    a, b = made["a"].of(list(range(7))), made["b"].of(list(range(13)))
    assert (a[:4] == b[:4]).all()
    assert not set(a) & set(b[4:])
