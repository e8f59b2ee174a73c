"""Where a sequence must be after each thing that can happen to it; the numbers are counted by hand."""

from __future__ import annotations

import pytest

from mlxdiag.inspect.run import Run
from mlxdiag.inspect.sequences import BOUND
from mlxdiag.traces.reader import parse
from mlxdiag.traces.types import Attention, Entry, Header, Row

FED_8 = "- {phase: prefill, rows: [{seq: a, offset: 0, tokens: 8}]}\n"
DECODED = FED_8 + "- {phase: decode, rows: [{seq: a, offset: 8, tokens: 1}]}\n"
NEXT = "- {phase: decode, rows: [{seq: a, tokens: 1}]}\n"


def call(offset, q, cache="batch"):
    return f"attention: [{{family: full, cache: {cache}, offset: {offset}, q: {q}, k: {offset + q}}}]"


def sequences_after(steps):
    """The state that the rules would see at one more step of sequence `a`."""
    trace = parse("steps:\n" + steps + NEXT)
    run = Run(trace.header)
    for entry in trace.entries:
        run.enter(entry)
    return run.sequences


def state_after(steps):
    (state,) = sequences_after(steps).states
    return state


@pytest.mark.parametrize(
    ("steps", "position"),
    [
        (FED_8, 8),
        (DECODED, 9),
        # Padding behind the last token is in the cache and has no position.
        ("- {phase: prefill, rows: [{seq: a, offset: 0, tokens: 5, padded: 8}]}\n", 5),
        # A trim takes the padding first, then tokens.
        (
            "- {phase: prefill, rows: [{seq: a, offset: 0, tokens: 5, padded: 8}]}\n"
            "- {phase: trim, rows: [{seq: a, asked: 3, done: 3}]}\n",
            5,
        ),
        (
            "- {phase: prefill, rows: [{seq: a, offset: 0, tokens: 5, padded: 8}]}\n"
            "- {phase: trim, rows: [{seq: a, asked: 4, done: 4}]}\n",
            4,
        ),
        (DECODED + "- {phase: trim, rows: [{seq: a, asked: 2, done: 2}]}\n", 7),
        (DECODED + "- {phase: trim, rows: [{seq: a, asked: 2}]}\n", 7),
        (DECODED + "- {phase: trim, rows: [{seq: a, asked: 2, done: 0}]}\n", 9),
        (DECODED + "- {phase: trim, rows: [{seq: a, asked: 2, done: 2}], refused: wrapped}\n", 9),
        (
            DECODED + "- {phase: trim, attention: [{family: full, asked: 2, done: 2},"
            " {family: sliding, asked: 2, done: 1}]}\n",
            8,
        ),
        (
            DECODED + "- {phase: verify, rows: [{seq: a, offset: 9, tokens: 4}]}\n"
            "- {phase: rollback, rows: [{seq: a, asked: 3, done: 3}]}\n",
            10,
        ),
        # Adopted: what was restored, or what the entry leaves.
        ("- {phase: adopt, rows: [{seq: a, matched: 60, entry: 100, restored: 60}]}\n", 60),
        ("- {phase: adopt, rows: [{seq: a, matched: 60, entry: 100, trimmed: 40}]}\n", 60),
        ("- {phase: adopt, rows: [{seq: a, matched: 60, entry: 100}]}\n", None),
        ("- {phase: adopt, rows: [{seq: a, matched: 60, entry: 100}], refused: declined}\n", 0),
        (DECODED + "- {phase: adopt, rows: [{seq: a, matched: 4, restored: 4}]}\n", 4),
        ("- {phase: load, rows: [{seq: a, restored: 30}]}\n", 30),
        # Left padding: the prompt of 3 sits at the end of 5 columns.
        (
            f"- {{phase: prefill, rows: [{{seq: a, left_padding: 2, tokens: 3}}], {call(-2, 5)}}}\n",
            3,
        ),
        # A chunk that is left padding throughout.
        (
            f"- {{phase: prefill, rows: [{{seq: a, left_padding: 4, tokens: 0}}], {call(-6, 4)}}}\n",
            -2,
        ),
        # Right padding until the finalize.
        (
            f"- {{phase: prefill, rows: [{{seq: a, tokens: 3, right_padding: 5}}], {call(0, 8)}}}\n"
            "- {phase: finalize, rows: [{seq: a}]}\n",
            3,
        ),
        (
            FED_8 + "- {phase: merge, rows: [{seq: a, declared: 8, size: 8}]}\n"
            "- {phase: filter, rows: [{seq: a}]}\n",
            8,
        ),
        (DECODED + "- {phase: prefill, rows: [{seq: a, offset: 0, tokens: 6}]}\n", 6),
        # The offset of a cache outweighs the scheduler's belief.
        (
            f"- {{phase: chunk, rows: [{{seq: a, offset: 0, tokens: 4}}], {call(16, 4, 'dense')}}}\n",
            20,
        ),
        # A model that is not this sequence's.
        (FED_8 + "- {phase: decode, model: draft, rows: [{seq: a, offset: 50, tokens: 1}]}\n", 8),
    ],
)
def test_the_next_position(steps, position):
    assert state_after(steps).position == position


def test_after_a_verify_either_the_block_or_what_was_accepted_is_legal():
    state = state_after(
        "- {phase: verify, rows: [{seq: a, offset: 9, tokens: 4, drafted: 3, accepted: 1}]}\n"
    )
    assert (state.position, list(state.other)) == (13, [11])


def test_after_a_verify_without_its_outcome_any_part_of_the_block_is_legal():
    verify = "- {phase: verify, rows: [{seq: a, offset: 9, tokens: 4}]}\n"
    state = state_after(verify)
    assert (state.position, list(state.other)) == (13, [10, 11, 12])
    told = state_after(verify + "- {phase: rollback, rows: [{seq: a, asked: 0, done: 0}]}\n")
    assert (told.position, told.other) == (13, None)


def test_a_prompt_fed_again_behind_left_padding_starts_below_zero():
    run = Run(Header())
    for entry in parse("steps:\n" + DECODED).entries:
        run.enter(entry)
    call_ = Attention(family="full", cache="batch", offset=[-3], q=8, k=8)
    run.enter(Entry(phase="prefill", rows=[Row(seq="a", tokens=5, left_padding=3)], attention=[call_]))
    assert run.sequences.restarted == [9]
    assert run.sequences.states[0].position == -3


@pytest.mark.parametrize("cache", ["paged", None])
def test_packed_rows_are_as_long_as_they_are_fed(cache):
    rows = [Row(seq="a", offset=30, tokens=1), Row(seq="b", offset=10, tokens=4)]
    call_ = Attention(family="full", cache=cache, offset=[30, 10], q=5, k=[31, 14])
    run = Run(Header())
    run.enter(Entry(phase="chunk", rows=rows, attention=[call_]))
    run.enter(Entry(phase="decode", rows=rows))
    assert [(state.position, state.pads) for state in run.sequences.states] == [(31, 0), (14, 0)]


def test_rows_of_a_batch_that_do_not_say_how_much_was_real_have_no_known_position():
    call_ = Attention(family="full", cache="batch", offset=0, q=8, k=8)
    run = Run(Header())
    run.enter(Entry(phase="prefill", rows=[Row(seq="a"), Row(seq="b", tokens=8)], attention=[call_]))
    run.enter(Entry(phase="decode", rows=[Row(seq="a"), Row(seq="b")]))
    assert [state.position for state in run.sequences.states] == [None, 8]


def test_a_trim_that_names_no_sequence_leaves_all_but_a_lone_one_unknown():
    trim = "- {phase: trim, attention: [{family: full, asked: 2, done: 2}]}\n"
    assert state_after(FED_8 + trim).position == 6
    other = "- {phase: prefill, rows: [{seq: b, offset: 0, tokens: 3}]}\n"
    assert state_after(FED_8 + other + trim).position is None


def test_a_right_padded_batch_is_pending_until_its_finalize():
    padded = (
        "- {phase: prefill, rows: [{seq: a, tokens: 3, right_padding: 5}],"
        " attention: [{family: full, cache: batch, offset: 0, q: 8, k: 8}]}\n"
    )
    assert state_after(padded).pending
    assert not state_after(padded + "- {phase: finalize, rows: [{seq: a}]}\n").pending
    assert not state_after(padded + "- {phase: finalize}\n").pending


def test_tile_padding_is_remembered_and_not_pending():
    state = state_after("- {phase: prefill, rows: [{seq: a, offset: 0, tokens: 5, padded: 8}]}\n")
    assert (state.pads, state.pending) == (3, False)


def test_a_refused_trim_is_not_overwritten_by_a_later_one_that_was_honoured():
    state = state_after(
        DECODED
        + "- {phase: trim, rows: [{seq: a, asked: 4, done: 0}]}\n"
        + "- {phase: trim, rows: [{seq: a, asked: 1, done: 1}]}\n"
    )
    assert (state.trim.asked, state.trim.done) == (4, 0)


def test_a_restart_is_known_by_its_offset_and_keeps_where_it_was():
    trace = parse("steps:\n" + DECODED + "- {phase: prefill, rows: [{seq: a, offset: 0, tokens: 9}]}\n")
    run = Run(trace.header)
    for entry in trace.entries:
        run.enter(entry)
    assert run.sequences.restarted == [9]
    assert run.sequences.states[0].position == 0


def test_a_finished_sequence_is_forgotten():
    assert state_after(DECODED.replace("tokens: 1", "tokens: 1, finish: eos")).position is None


def test_endless_new_names_do_not_grow_the_state():
    run = Run(Header())
    for at in range(2 * BOUND):
        run.enter(Entry(phase="decode", rows=[Row(seq=f"s{at}", offset=at, tokens=1)]))
    assert len(run.sequences._known) <= BOUND


def test_rows_without_names_are_followed_only_while_alone():
    alone = "- {phase: decode, rows: [{offset: 8, tokens: 1}]}\n"
    trace = parse("steps:\n" + alone + alone)
    run = Run(trace.header)
    for entry in trace.entries:
        run.enter(entry)
    assert run.sequences.states[0].position == 9
    run.enter(Entry(phase="decode", rows=[Row(offset=9, tokens=1), Row(offset=3, tokens=1)]))
    assert run.sequences.states == [None, None]
