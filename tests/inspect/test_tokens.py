"""Token streams: what counts as collapse, what is legal, and that memory does not grow."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mlxdiag.inspect.cycles import TAIL
from mlxdiag.inspect.stream import Stream
from mlxdiag.inspect.tokens import OPEN_STREAMS, Streams, classify
from mlxdiag.traces.types import Entry, Output, Row, Tokens


def answer(classes=None, ids=None, finish=None, seq="a", phase="decode", emitted=None, **row):
    count = emitted if emitted is not None else len(classes if classes is not None else ids)
    row = Row(seq=seq, classes=classes, ids=ids, emitted=count, finish=finish, **row)
    return Entry(phase=phase, rows=[row])


def facts(*entries, tokens=None, raw=False):
    """(kind, first index) of everything that the entries and the end show, in order."""
    streams = Streams()
    seen = []
    for entry in entries:
        streams.feed(entry, tokens, raw)
        seen += streams.new
    return [(fact.kind, fact.onset) for fact in [*seen, *streams.ending()]]


def kinds(*entries, **settings):
    return [kind for kind, _ in facts(*entries, **settings)]


letters = st.lists(st.sampled_from("tttttcrpe0"), max_size=60).map("".join)


@settings(max_examples=200, deadline=None)
@given(classes=letters, seed=st.integers(0, 5), cuts=st.lists(st.integers(0, 60), max_size=6))
def test_it_does_not_matter_how_many_tokens_a_step_emits(classes, seed, cuts):
    ids = [(seed + at * at) % 4 for at in range(len(classes))]
    edges = sorted({0, len(classes), *(cut for cut in cuts if cut < len(classes))})
    parts = [answer(classes[a:b], ids[a:b]) for a, b in pairwise(edges)]
    assert facts(*parts) == facts(*([answer(classes, ids)] if classes else []))


@settings(max_examples=300, deadline=None)
@given(
    stream=st.lists(st.tuples(st.sampled_from("tttttttr"), st.integers(1, 3)), min_size=1, max_size=60),
)
def test_reserved_ids_collapse_exactly_when_some_16_tokens_hold_three_or_two_different(stream):
    windows = [stream[at : at + 16] for at in range(len(stream))]
    held = [[ident for letter, ident in window if letter == "r"] for window in windows]
    collapses = any(len(ids) >= 3 or len(set(ids)) >= 2 for ids in held)
    classes = "".join(letter for letter, _ in stream)
    assert ("reserved" in kinds(answer(classes, [ident for _, ident in stream]))) == collapses


@pytest.mark.parametrize(("between", "found"), [(14, ["reserved"]), (15, [])])
def test_sixteen_tokens_are_counted_with_both_ends(between, found):
    assert kinds(answer("r" + between * "t" + "r", [1, *range(10, 10 + between), 2])) == found


def test_markers_at_either_end_of_a_thought_are_no_collapse():
    assert facts(answer("r" + 16 * "t" + "r" + 20 * "t", [1, *range(10, 26), 2, *range(30, 50)])) == []


@pytest.mark.parametrize("count", [3, 4])
def test_four_pads_in_a_row_are_the_least_that_counts(count):
    assert kinds(answer("tt" + "p" * count + "t")) == (["pads"] if count == 4 else [])


def test_pads_of_a_row_that_has_finished_are_filler_until_its_name_starts_again():
    pads = answer("pppppp")
    assert kinds(answer("tt", finish="length"), pads, pads) == []
    again = Entry(phase="prefill", rows=[Row(seq="a", offset=0, tokens=5)])
    assert kinds(answer("tt", finish="length"), again, pads) == ["pads"]


def test_pads_behind_an_eos_are_filler_even_without_a_finish():
    assert kinds(answer("tte" + "p" * 20)) == []
    assert kinds(answer("ttet" + "p" * 20)) == ["pads"]


def test_a_pad_id_that_is_also_an_eos_is_never_a_pad_run():
    tokens = Tokens(pad=2, eos=[2, 7])
    assert kinds(answer("tpppppp"), tokens=tokens) == []
    assert kinds(answer(ids=[5, 2, 2, 2, 2, 2]), tokens=tokens, raw=True) == []
    assert kinds(answer("tpppppp"), tokens=Tokens(pad=0, eos=[7])) == ["pads"]


@pytest.mark.parametrize(("head", "onset"), [("", 0), ("t", 1), ("ttt", 3)])
def test_a_run_of_id_zero_is_dated_by_its_first_token(head, onset):
    assert facts(answer(head + "0" * 9)) == [("zeros", onset)]
    assert facts(answer(head + "0" * 9 + "e", finish="eos")) == [("zeros", onset)]


def test_exclamation_marks_that_text_follows_are_text():
    assert kinds(answer("t" + "0" * 20 + "t")) == []
    assert kinds(answer("0" * 7)) == []


def test_nan_is_said_only_where_it_was_seen():
    def seen(**more):
        streams = Streams()
        row = Row(seq="a", classes="0" * 8, emitted=8, **more.pop("row", {}))
        streams.feed(Entry(phase="decode", rows=[row], **more), None)
        return streams.ending()[0].evidence["nonfinite"]

    assert not seen()
    assert not seen(row={"logprob": float("-inf")})
    assert seen(row={"logprob": None})
    assert seen(row={"logprob": "nan"})
    assert seen(output=[Output(nan=3)])


def test_control_ids_flood_only_when_one_of_them_does():
    assert facts(answer("t" + "c" * 8, [1, *[5] * 8])) == [("flood", 1)]
    assert kinds(answer("c" * 8, [5, 6] * 4)) == []
    assert kinds(answer("cttt" * 20, [5, *range(10, 13)] * 20)) == ["short-cycle"]


def test_without_ids_only_an_unbroken_run_of_control_tokens_is_a_flood():
    assert kinds(answer("c" * 8)) == ["flood"]
    assert kinds(answer("ct" * 8)) == []


def test_a_loop_counts_at_the_end_of_the_answer_only():
    loop = [3, 4, 5, 6] * 15
    assert facts(answer(ids=[1, 2, *loop])) == [("short-cycle", 2)]
    assert kinds(answer(ids=[*loop, 1, 2])) == []
    assert facts(answer("t" * 60 + "e", [*loop, 9], finish="eos")) == [("short-cycle", 0)]
    block = list(range(30))
    assert facts(answer(ids=block * 3)) == [("long-cycle", 0)]


def test_real_ids_are_classified_and_relabelled_ones_never():
    tokens = Tokens(pad=0, eos=[1], reserved=[(6, 104)], control=[100, 101])
    assert [classify(ident, tokens) for ident in (0, 1, 6, 100, 104, 105)] == list("percrt")
    unused = answer(ids=[50, 51, 52, 50])
    assert kinds(unused, tokens=tokens, raw=True) == ["reserved"]
    assert kinds(unused, tokens=tokens) == []


def test_id_zero_is_told_even_where_it_is_a_control_token():
    """In GPT-2's vocabulary and its heirs id 0 is the end of a text, which NaN gives without an end."""
    tokens = Tokens(pad=2, eos=[2], control=[0, 1, 2])
    assert [classify(ident, tokens) for ident in (0, 1, 2, 3)] == list("0cet")
    assert kinds(answer(ids=[0] * 8), tokens=tokens, raw=True) == ["zeros"]


def test_registered_control_ids_are_not_reserved():
    tokens = Tokens(reserved=[(6, 104)], control=[100, 101])
    assert kinds(answer("trrrrt", [9, 100, 101, 100, 101, 9]), tokens=tokens, raw=True) == []
    assert kinds(answer("trrrrt", [9, 50, 51, 50, 51, 9]), tokens=tokens, raw=True) == ["reserved"]


def test_an_empty_answer_counts_only_after_a_hit():
    hit = Entry(phase="adopt", rows=[Row(seq="a", matched=50, entry=50, restored=49)])
    declined = Entry(phase="adopt", rows=[Row(seq="a", matched=50, entry=50)], refused="not trimmable")
    empty = answer("e", finish="eos")
    assert kinds(hit, empty) == ["empty"]
    assert kinds(hit, answer(emitted=0, classes="", finish="eos")) == ["empty"]
    assert kinds(declined, empty) == []
    assert kinds(empty) == []
    assert kinds(hit, answer("te", finish="eos")) == []
    assert kinds(hit, answer(emitted=0, classes="", finish="abort")) == []


def test_a_length_finish_is_worth_a_word_only_beside_a_bad_answer():
    assert kinds(answer("t" * 20, finish="length")) == []
    assert kinds(answer("t" + "p" * 9, finish="length")) == ["pads", "unstopped"]


def test_a_long_answer_is_remembered_in_bounded_space():
    stream = Stream("a")
    for at in range(40_000):
        assert list(stream.push("rcpe0t"[at % 5] if at % 97 == 0 else "t", at)) == []
    assert len(stream.tail) <= 2 * TAIL
    assert len(stream.reserved) <= 16
    assert len(stream.controls) <= 16
    assert stream.count == 40_000


def test_answers_that_never_finish_are_judged_when_too_many_are_open():
    streams = Streams()
    streams.feed(answer(ids=[7] * 60, seq="first"), None)
    told = []
    for at in range(3 * OPEN_STREAMS):
        streams.feed(answer("t", [at], seq=f"s{at}"), None)
        told += streams.new
    assert [fact.seq for fact in told] == ["first"]
    assert len(streams._open) <= OPEN_STREAMS


def test_a_row_without_a_name_is_followed_only_while_it_is_alone():
    assert kinds(Entry(phase="decode", rows=[Row(classes="pppp", emitted=4)])) == ["pads"]
    rows = [Row(classes="pppp", emitted=4), Row(classes="t", emitted=1)]
    assert kinds(Entry(phase="decode", rows=rows)) == []
