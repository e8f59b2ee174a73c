"""Seen and due, held against sets that are enumerated key by key."""

import random

import msgspec
import numpy as np
import pytest

from mlxdiag.inspect.call import build
from mlxdiag.inspect.run import Run
from mlxdiag.inspect.visibility import observe
from mlxdiag.reports import attended as look
from mlxdiag.traces.reader import parse

WINDOW = 4
SLIDING = "model: {layers: {sliding: {attention: sliding, window: 4}, full: {attention: full}}}\nsteps:\n- "


def calls(text):
    trace = parse(text)
    run = Run(trace.header)
    for entry in trace.entries:
        run.enter(entry)
    last = trace.entries[-1]
    return [build(last, index, run) for index in range(len(last.attention))]


def rows(text):
    return look.rows_of(calls(text)[0])


def members(query, *kinds):
    return {p for kind, (a, b) in look.parts(query) if kind in kinds for p in range(a, b + 1)}


def seen_by(query):
    return members(query, look.RIGHT, look.OLD, look.FUTURE)


def due_at(position, window=WINDOW):
    return {p for p in range(position + 1) if position - p < window}


@pytest.mark.parametrize("offset", [0, 3, 9])
def test_a_plain_causal_band_sees_too_much_beyond_the_window(offset):
    """Derived: q queries over every key; the window is enforced by nobody."""
    (row,) = rows(
        SLIDING + f"{{rows: [{{seq: a, offset: {offset}, tokens: 6}}], attention: [{{family: sliding, "
        f"cache: dense, k: {offset + 6}, mask: causal}}]}}"
    )
    assert row.origin == look.DERIVED
    for query in row.queries:
        everything = set(range(query.position + 1))
        assert seen_by(query) == everything
        assert members(query, look.OLD) == everything - due_at(query.position)
        assert members(query, look.RIGHT) == due_at(query.position)
    assert row.wrong == sum(offset + i + 1 > WINDOW for i in range(6))


def test_a_capped_mask_leaves_the_first_queries_blind():
    """W columns over more keys: `max(q - W, 0)` queries see nothing (MD107's own formula)."""
    (row,) = rows(
        SLIDING + "{rows: [{offset: 0, tokens: 9}], attention: [{family: sliding, k: 9, mask: [9, 4], "
        "fate: discarded, fallback: sliced}]}"
    )
    assert [i for i, query in enumerate(row.queries) if query.seen == ()] == [0, 1, 2, 3, 4]
    for query in row.queries:
        assert seen_by(query) == {p for p in due_at(query.position) if p >= 5}
        assert members(query, look.MISSING) == due_at(query.position) - seen_by(query)


def test_no_mask_on_several_queries_shows_the_future():
    (row,) = rows(SLIDING + "{rows: [{offset: 0, tokens: 3}], attention: [{family: full, k: 3, mask: null}]}")
    assert [members(query, look.FUTURE) for query in row.queries] == [{1, 2}, {2}, set()]


def test_keys_cut_to_the_oldest_show_the_start_of_the_sequence():
    """Twelve keys held, five new: query i sees keys 0 to i."""
    (row,) = rows(
        SLIDING + "{rows: [{offset: 12, tokens: 5}], attention: [{family: full, k: 17, mask: null, "
        "fallback: oldest}]}"
    )
    assert row.origin == look.DERIVED
    assert [seen_by(query) for query in row.queries] == [set(range(i + 1)) for i in range(5)]


def test_one_query_on_a_ring_sees_the_keys_it_returns():
    (row,) = rows(
        SLIDING + "{rows: [{offset: 9, tokens: 1}], attention: [{family: sliding, k: 4, mask: null}]}"
    )
    assert seen_by(row.queries[0]) == {6, 7, 8, 9}
    assert row.wrong == 0


def test_a_shape_alone_says_nothing_of_what_was_seen():
    (row,) = rows(
        SLIDING + "{rows: [{offset: 0, tokens: 3}], attention: [{family: sliding, k: 3, mask: [3, 3]}]}"
    )
    assert row.origin == look.UNSEEN
    assert {kind for query in row.queries for kind, _ in look.parts(query)} == {look.DUE}
    assert row.wrong == 0


def test_a_refused_call_saw_nothing_that_is_known():
    (row,) = rows(
        SLIDING + "{rows: [{offset: 0, tokens: 3}], attention: [{family: sliding, k: 9, mask: [3, 3], "
        "fate: rejected}]}"
    )
    assert row.origin == look.UNSEEN
    assert "refused" in row.basis


def test_what_was_observed_is_taken_over_what_shapes_say():
    (row,) = rows(
        SLIDING + "{rows: [{offset: 2, tokens: 3}], attention: [{family: sliding, k: 5, mask: causal, "
        "first: [[1, 1, 1]], last: [[2, 3, 4]], visible: [[2, 3, 4]], missing: [[0, 0, 0], [0, 1, 0]]}]}"
    )
    assert row.origin == look.OBSERVED
    assert [members(query, look.MISSING) for query in row.queries] == [{0}, {0}, set()]
    assert row.wrong == 2


def test_gaps_are_never_filled():
    """Three keys between 0 and 5: which of them is not told."""
    (row,) = rows(
        SLIDING + "{rows: [{offset: 5, tokens: 1}], attention: [{family: full, k: 6, "
        "first: [[0]], last: [[5]], visible: [[3]], missing: [[0, 0, 2]]}]}"
    )
    assert [kind for kind, _ in look.parts(row.queries[0])] == [look.PARTLY]
    assert row.wrong == 1


def test_the_reader_of_the_masks_knows_more_than_their_ends():
    """A bidirectional span: later positions are seen, and nothing is wrong."""
    (row,) = rows(
        SLIDING + "{rows: [{offset: 0, tokens: 3}], attention: [{family: full, k: 3, first: [[0, 0, 0]], "
        "last: [[2, 2, 2]], visible: [[3, 3, 3]], totals: {wrong_queries: 0}}]}"
    )
    assert row.wrong == 0


def test_padding_left_in_a_cache_does_not_move_the_tokens():
    """The call runs at 2208, its token is number 2201 (the worked sample of 2201 tokens padded to 2208)."""
    (row,) = rows(
        SLIDING + "{phase: decode, rows: [{offset: 2208, tokens: 1}], attention: [{family: full, k: 2209, "
        "first: [[0]], last: [[2201]], visible: [[2209]], padding: [[0, 0, -1]], totals: {padding: 7}}]}"
    )
    assert row.queries[0].position == 2201
    assert "7 beyond" in row.basis
    assert row.wrong == 1


@pytest.mark.parametrize("missing", ["[[0, 0, 4]]", "[[0, 0, 0], [0, 0, 4]]"])
def test_a_query_that_does_not_see_itself_is_not_moved(missing):
    (row,) = rows(
        SLIDING + "{rows: [{offset: 4, tokens: 1}], attention: [{family: full, k: 5, first: [[0]], "
        f"last: [[3]], visible: [[4]], missing: {missing}}}]}}"
    )
    assert row.queries[0].position == 4
    assert members(row.queries[0], look.MISSING) == {4}


def test_padding_queries_are_asked_nothing():
    (row,) = rows(
        SLIDING
        + "{rows: [{offset: 0, tokens: 2, padded: 4}], attention: [{family: full, k: 4, mask: causal}]}"
    )
    assert [query.real for query in row.queries] == [True, True, False, False]


def test_left_padding_stands_below_zero():
    first, second = rows(
        SLIDING + "{rows: [{seq: a}, {seq: b, left_padding: 2}], attention: [{family: full, cache: batch, "
        "offset: [0, -2], cursor: 0, q: 4, k: 4, mask: [2, 1, 4, 4]}]}"
    )
    assert [query.position for query in second.queries if query.real] == [0, 1]
    assert all(query.real for query in first.queries)


def test_recurrent_layers_attend_nothing():
    assert rows(SLIDING + "{rows: [{offset: 0, tokens: 2}], attention: [{family: recurrent, q: 2}]}") == []


@pytest.mark.parametrize("seed", range(40))
def test_as_many_queries_are_wrong_as_the_reader_of_the_masks_counts(seed):
    """Random masks over every key: what was seen is drawn as it was, or said to have gaps."""
    draw = random.Random(seed)
    q, offset = draw.randint(1, 6), draw.randint(0, 6)
    k = offset + q
    mask = np.tril(np.ones((q, k), bool), offset)
    for _ in range(draw.randint(0, 5)):
        mask[draw.randrange(q), draw.randrange(k)] ^= True
    queries = np.arange(offset, k)[None]
    fields = observe(
        mask[None],
        np.zeros((1, k), int),
        np.arange(k)[None],
        np.zeros((1, q), int),
        queries,
        np.ones((1, q), bool),
        kind="sliding",
        window=WINDOW,
    )
    step = {
        "rows": [{"seq": "a", "offset": offset, "tokens": q}],
        "attention": [{"family": "sliding", "q": q, "k": k, **fields}],
    }
    (row,) = rows(SLIDING + msgspec.json.encode(step).decode())
    assert row.wrong == fields["totals"]["wrong_queries"]
    for query, seen in zip(row.queries, mask, strict=True):
        drawn = {p for a, b in query.seen for p in range(a, b + 1)}
        assert query.partly or drawn == set(np.flatnonzero(seen).tolist())
        assert drawn >= set(np.flatnonzero(seen).tolist())
