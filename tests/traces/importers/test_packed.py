from __future__ import annotations

from mlxdiag.traces.importers import packed
from mlxdiag.traces.importers.draft import Draft
from mlxdiag.traces.types import Row


def written(*rows):
    draft = Draft()
    fed = packed.write(draft, rows)
    return fed, [(step.phase, [row.seq for row in step.rows]) for step in draft.steps]


def test_rows_of_several_tokens_stand_alone_and_single_ones_together():
    rows = [
        Row(seq="a", phase="decode", tokens=1),
        Row(seq="b", phase="chunk", tokens=8),
        Row(seq="c", phase="decode", tokens=1),
        Row(seq="d", phase="prefill", tokens=8),
    ]
    assert written(*rows) == (True, [("chunk", ["b"]), ("prefill", ["d"]), ("decode", ["a", "c"])])


def test_single_tokens_of_two_phases_keep_their_own():
    draft = Draft()
    packed.write(draft, [Row(seq="a", phase="decode", tokens=1), Row(seq="b", phase="prefill", tokens=1)])
    assert [row.phase for row in draft.steps[0].rows] == ["decode", "prefill"]


def test_a_step_without_tokens_is_none():
    assert written(Row(seq="a", tokens=0)) == (False, [])


def test_phases():
    assert packed.phase_of(8, 0, None) == "prefill"
    assert packed.phase_of(8, 4, None) == "chunk"
    assert packed.phase_of(1, 4, None) == "decode"
    assert packed.phase_of(1, 4, 5) == "chunk"
    assert packed.phase_of(1, None, None) == "decode"
