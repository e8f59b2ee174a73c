"""MD6: when answers go bad, whose fault it may be, and what stays a note."""

from __future__ import annotations

import pytest

from mlxdiag.inspect.inspector import Inspector, inspect_trace
from mlxdiag.traces.reader import parse
from mlxdiag.traces.types import Entry, Header, Row


def found(text):
    return [(f.code, f.severity) for f in inspect_trace(parse(text)).findings if f.code[:3] == "MD6"]


@pytest.mark.parametrize(
    ("before", "expected"),
    [(3, []), (4, [("MD607", "info")]), (5, [])],
)
def test_onset_where_the_window_fills_is_exact(before, expected):
    text = f"""
model: {{layers: {{sliding: {{attention: sliding, window: 64}}}}}}
steps:
- {{phase: prefill, rows: [{{seq: a, offset: 0, tokens: 60, emitted: {before}, classes: {"t" * before}}}]}}
- {{phase: decode, rows: [{{seq: a, offset: 60, tokens: 1, emitted: 4, classes: pppp}}]}}
"""
    assert found(text) == [("MD602", "error"), *expected]


def test_onset_on_a_chunk_edge_and_right_after_a_hit_are_noted():
    chunked = """
scheduler: {chunk: 16}
steps: [{phase: prefill, rows: [{seq: a, offset: 0, tokens: 30, emitted: 6, classes: ttpppp}]}]
"""
    assert found(chunked) == [("MD602", "error"), ("MD607", "info")]
    hit = """
steps:
- {phase: adopt, rows: [{seq: a, matched: 50, entry: 50, restored: 49}]}
- {phase: decode, rows: [{seq: a, offset: 49, tokens: 1, emitted: 4, classes: pppp}]}
"""
    assert found(hit) == [("MD602", "error"), ("MD607", "info")]


def accepted(counts, seq="a"):
    return [
        Entry(step=at, phase="verify", rows=[Row(seq=seq, tokens=5, drafted=4, accepted=count)])
        for at, count in enumerate(counts)
    ]


@pytest.mark.parametrize(
    ("counts", "fires"),
    [
        ([3] * 32, False),
        ([3] * 16 + [0] * 16, True),
        # 3.0 from 5.0 is more than half; 2.4 is less.
        ([4] * 16 + [2] * 16, False),
        ([4] * 16 + [1] * 10 + [2] * 6, True),
        # About one from the start is no fall.
        ([0] * 64, False),
        ([3] * 16 + [0] * 15, False),
    ],
)
def test_acceptance_collapses_when_it_halves_or_falls_to_one(counts, fires):
    inspector = Inspector(Header())
    for entry in accepted(counts):
        inspector.feed(entry)
    codes = {finding.code for finding in inspector.close().findings}
    assert ("MD610" in codes) == fires


def test_rounds_without_a_draft_are_speculation_standing_down():
    inspector = Inspector(Header())
    down = [Entry(phase="decode", rows=[Row(seq="a", tokens=1, drafted=0, accepted=0)])] * 40
    for entry in [*accepted([3] * 20), *down]:
        inspector.feed(entry)
    assert inspector.close().findings == []


def test_drafts_of_another_length_are_not_compared():
    inspector = Inspector(Header())
    short = [Entry(phase="verify", rows=[Row(seq="a", tokens=2, drafted=1, accepted=1)])] * 20
    for entry in [*accepted([4] * 20), *short]:
        inspector.feed(entry)
    assert inspector.close().findings == []


def test_the_finding_of_a_growing_file_comes_with_the_token_that_crossed_the_line():
    inspector = Inspector(Header())
    told = [
        [
            f.code
            for f in inspector.feed(Entry(step=at, phase="decode", rows=[Row(seq="a", emitted=1, classes=c)]))
        ]
        for at, c in enumerate("tppppp")
    ]
    assert told == [[], [], [], [], ["MD602"], []]
    assert [f.code for f in inspector.close().findings] == ["MD602"]


def test_an_answer_that_never_finishes_is_judged_at_the_end_of_the_trace():
    inspector = Inspector(Header())
    inspector.feed(Entry(step=1, phase="decode", rows=[Row(seq="a", emitted=60, ids=[1, 2, 3] * 20)]))
    assert [f.code for f in inspector.close().findings] == ["MD604"]
