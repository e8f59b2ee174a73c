"""Schedules: what they must hold to test what they are named for, worked out from their rows alone."""

from itertools import pairwise
from types import SimpleNamespace

import pytest

from mlxdiag.audit.faults import text
from mlxdiag.audit.schedules import schedules
from mlxdiag.audit.schedules.scenarios import NAMES
from mlxdiag.audit.schedules.script import Script, Sizes
from mlxdiag.replay import plan as planning
from mlxdiag.replay.ops import Forward
from mlxdiag.traces.reader import parse
from mlxdiag.traces.types import FORWARD_PHASES, Family, Model

FAMILIES = {
    "sliding": Family(attention="sliding", cache="rotating", window=8, layers=[0]),
    "full": Family(attention="full", cache="dense", layers=[1]),
}
MODEL = Model(architecture="gemma3_text", layers=FAMILIES)


def written(name, window=8, kv_heads=2):
    script = Script()
    schedules.SCHEDULES[name](script, Sizes(window=window, kv_heads=kv_heads))
    return script.trace(MODEL, schedules.SCHEDULERS.get(name))


def rows(trace, seq="a"):
    """(offset, tokens) of each forward of a sequence."""
    forwards = [entry for entry in trace.entries if entry.kind in FORWARD_PHASES]
    return [(row.offset, row.tokens) for entry in forwards for row in entry.rows if row.seq == seq]


@pytest.mark.parametrize(
    ("config", "heads"),
    [
        ({"num_key_value_heads": 4, "num_attention_heads": 8}, 4),
        ({"text_config": {"n_kv_heads": 3}}, 3),
        ({"num_kv_heads": [2, 4]}, 2),
        ({"num_key_value_heads": 1}, 2),
        ({}, 2),
    ],
)
def test_lengths_are_built_around_the_smallest_window_and_the_key_heads(config, heads):
    layers = [SimpleNamespace(window=window) for window in (None, 16, 9)]
    sizes = schedules.sizes_of(SimpleNamespace(config=config, geometry=SimpleNamespace(layers=layers)))
    assert sizes == Sizes(window=9, kv_heads=heads)


def test_a_family_without_a_window_gets_the_one_that_schedules_pretend():
    without = SimpleNamespace(config={}, geometry=SimpleNamespace(layers=[SimpleNamespace(window=None)]))
    assert schedules.sizes_of(without).window == 8


@pytest.mark.parametrize("window", [8, 12])
@pytest.mark.parametrize("name", NAMES)
def test_every_schedule_is_a_plan_that_replay_can_lay(name, window):
    trace = written(name, window)
    laid = planning.lay(trace, FAMILIES, source=name)
    assert laid.forwards
    assert not laid.notes
    assert not any(op.assumed for op in laid.ops if isinstance(op, Forward))


@pytest.mark.parametrize("name", NAMES)
def test_schedules_stay_small(name):
    most = 48 if name == "fresh-over-window" else 32
    assert max(planning.lay(written(name), FAMILIES).lengths.values()) <= most


@pytest.mark.parametrize("name", NAMES)
def test_a_schedule_survives_its_own_text(name):
    trace = written(name)
    assert parse(text.of(trace)).entries == trace.entries


@pytest.mark.parametrize(
    ("name", "fits"),
    [
        ("chunks-below-window", lambda q: q < 8 and 8 % q == 0),
        ("chunks-equal-window", lambda q: q == 8),
        ("chunks-above-window", lambda q: q > 8),
        ("chunks-not-dividing", lambda q: q < 8 and 8 % q),
    ],
)
def test_chunks_are_of_the_size_that_they_are_named_for_on_both_sides_of_the_window(name, fits):
    chunks = [(at, q) for at, q in rows(written(name)) if q > 1]
    assert all(fits(q) for _, q in chunks[:-1])
    assert any(at + q <= 8 or at == 0 for at, q in chunks)
    assert any(at >= 8 for at, q in chunks)


def test_speculation_stays_before_crosses_or_starts_behind_the_wrap():
    ends = {}
    for name in ("speculative-before-wrap", "speculative-across-wrap", "speculative-after-wrap"):
        verified = [entry.rows[0] for entry in written(name).entries if entry.phase == "verify"]
        ends[name] = [(row.offset, row.offset + row.tokens) for row in verified]
    assert all(end <= 8 for _, end in ends["speculative-before-wrap"])
    assert any(begin < 8 < end for begin, end in ends["speculative-across-wrap"])
    assert all(begin >= 8 for begin, _ in ends["speculative-after-wrap"])


def test_one_schedule_goes_on_token_by_token_past_position_forty():
    (long, rest), *after = rows(written("fresh-over-window"))
    assert long == 0
    assert rest > 40
    assert after == [(rest, 1)]


def test_those_that_stay_when_the_longest_row_leaves_all_have_padding():
    entries = written("ragged-batch").entries
    place = next(i for i, entry in enumerate(entries) if entry.phase == "filter")
    lengths = {row.seq: row.offset + row.tokens for row in entries[place - 2].rows}
    kept = {row.seq for row in entries[place].rows}
    assert max(lengths[seq] for seq in kept) < max(lengths.values())
    assert len({lengths[seq] for seq in kept}) == len(kept) == 2
    after = [entry for entry in entries[place:] if {row.seq for row in entry.rows} == kept]
    assert any(entry.phase == "decode" for entry in after)


def test_a_ring_that_turned_token_by_token_is_merged_and_then_turns_on():
    entries = written("ragged-batch").entries
    place = next(i for i, entry in enumerate(entries) if entry.phase == "merge")
    before = [entry.rows[0] for entry in entries[:place] if entry.rows[0].seq == "a"]
    last = [row for row in before if row.tokens == 1]
    assert before[0].tokens < 8 < last[-1].offset + 1
    assert any(entry.phase == "decode" for entry in entries[place:])


def test_five_rows_are_in_one_batch():
    assert max(len(entry.rows) for entry in written("left-padding").entries) >= 5


@pytest.mark.parametrize("kv_heads", [2, 4])
def test_batches_have_as_many_rows_as_key_heads_and_more(kv_heads):
    for side in ("left", "right"):
        like = written(f"{side}-padding-as-heads", kv_heads=kv_heads)
        other = written(f"{side}-padding", kv_heads=kv_heads)
        assert max(len(entry.rows) for entry in like.entries) == kv_heads
        assert max(len(entry.rows) for entry in other.entries) > kv_heads


def test_a_row_of_the_pieces_is_over_before_the_others_and_the_last_piece_is_one_token():
    trace = written("right-padding-last-token")
    pieces = [entry for entry in trace.entries if entry.kind in FORWARD_PHASES and entry.phase != "decode"]
    last = pieces[-1].rows
    assert [row.tokens for row in last] == [1, 0, 0]
    assert [row.right_padding for row in last] == [None, 1, 1]


def test_the_ring_has_turned_and_a_row_has_padding_left_when_several_tokens_come():
    entries = written("left-padding-after-wrap").entries
    first, chunk = entries[0], next(entry for entry in entries[1:] if entry.phase == "chunk")
    width = max(row.tokens for row in first.rows)
    assert width < 8
    turned = width + sum(entry.phase == "decode" for entry in entries[: entries.index(chunk)]) - 8
    assert 0 < turned < max(row.left_padding or 0 for row in first.rows)
    assert all(row.tokens > 1 for row in chunk.rows)


def test_a_fresh_row_joins_without_any_padding():
    entries = [e for e in written("ragged-fresh-row").entries if e.kind in FORWARD_PHASES and len(e.rows) > 1]
    joined = entries[0].rows
    assert [row.offset for row in joined] == [4, 0]
    assert len({row.tokens for row in joined}) == 1
    assert not any(row.left_padding or row.right_padding for entry in entries for row in entry.rows)


def test_rounds_of_drafts_reject_all_one_and_none_within_the_window():
    entries = written("drafts").entries
    rejected = [
        after.rows[0].asked if after.phase == "rollback" else 0
        for entry, after in pairwise(entries)
        if entry.phase == "verify"
    ]
    assert rejected == [2, 1, 0]
    assert max(row.offset + row.tokens for e in entries if e.phase == "verify" for row in e.rows) <= 8


def test_an_exact_hit_leaves_nothing_of_the_prompt_and_is_named_so():
    (adopted,) = [entry.rows[0] for entry in written("trie-exact").entries if entry.phase == "adopt"]
    assert adopted.total == adopted.matched == adopted.entry


def test_tile_padding_is_cut_off_again():
    trace = written("tile-padding-32")
    assert trace.entries[0].rows[0].padded == 32
    assert trace.entries[1].rows[0].asked == 32 - trace.entries[0].rows[0].tokens
