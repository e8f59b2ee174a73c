"""Two runs held against each other, made by hand."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from mlxdiag.audit.across.compared import compare
from mlxdiag.audit.across.watched import Place, Told, views
from mlxdiag.models.events import Seen
from mlxdiag.models.identity import AMBIGUOUS, PADDING

DRAW = np.random.default_rng(5)
LOGITS = DRAW.normal(size=(4, 16)).astype(np.float32)


def run(logits: np.ndarray = LOGITS, seen: Seen | None = None) -> Any:
    told = Told(step=7, phase="chunk", seq="a", positions=(8, 9, 10, 11), logits=logits)
    return SimpleNamespace(
        told={Place(2, 0): told}, seen={2: {} if seen is None else {5: seen}}, numbers={"a": 0}
    )


def see(mask: np.ndarray, seqs: list[int], positions: list[int]) -> Seen:
    queries = np.array([[8, 9, 10, 11]])
    return Seen(
        mask=mask[None],
        key_seq=np.array([seqs]),
        key_pos=np.array([positions]),
        query_seq=np.array([0]),
        query_pos=queries,
        query_real=np.ones_like(queries, bool),
    )


def test_equal_runs_have_nothing_wrong() -> None:
    found = compare(run(), run(), 1e-4)
    assert (found.count, found.largest, found.first, found.margin) == (4, 0.0, None, None)
    assert found.unit == pytest.approx(float(np.std(LOGITS)))


def test_differences_are_in_units_of_the_spread() -> None:
    other = LOGITS.copy()
    other[2, 3] += 0.5
    found = compare(run(), run(other), 1e-3)
    assert [(wrong.position, wrong.step, wrong.seq) for wrong in found.wrong] == [(10, 7, "a")]
    assert found.largest == pytest.approx(0.5 / float(np.std(LOGITS)), rel=1e-5)
    top = np.sort(LOGITS[2])[-2:]
    assert found.margin == pytest.approx(float(top[1] - top[0]))
    assert found.parities[Place(2, 0)].first == 10


def test_what_is_within_the_tolerance_is_not_wrong() -> None:
    other = LOGITS + np.float32(1e-4 * float(np.std(LOGITS)))
    found = compare(run(), run(other), 2e-4)
    assert (found.first, found.parities[Place(2, 0)].first) == (None, None)
    assert found.largest == pytest.approx(1e-4, rel=0.05)


def test_not_a_number_is_infinitely_wrong() -> None:
    other = LOGITS.copy()
    other[1] = np.nan
    found = compare(run(), run(other), 1e-3)
    assert (found.largest, found.wrong[0].position) == (np.inf, 9)


def test_rows_that_one_run_did_not_reach_are_left_out() -> None:
    other = run()
    other.told = {}
    assert compare(run(), other, 1e-3).count == 0


MASK = np.tri(4, 12, 8, dtype=bool)


def test_the_order_of_keys_does_not_matter() -> None:
    turned = np.roll(np.arange(12), 5)
    ours = see(MASK, [0] * 12, list(range(12)))
    theirs = see(MASK[:, turned], [0] * 12, turned.tolist())
    found = compare(run(seen=ours), run(seen=theirs), 1e-3)
    assert (found.queries, found.unlike) == (4, ())


def test_a_key_more_is_seen() -> None:
    less = MASK.copy()
    less[1, 0] = False
    ours, theirs = (see(mask, [0] * 12, list(range(12))) for mask in (less, MASK))
    (one,) = compare(run(seen=ours), run(seen=theirs), 1e-3).unlike
    assert (one.layer, one.seq, one.position) == (5, "a", 9)
    assert (one.first, one.second) == (tuple(range(1, 10)), tuple(range(10)))


def test_a_long_row_leaves_room_for_another_ones_queries() -> None:
    tokens = 40
    mask, less = np.ones((2, tokens, tokens), bool), np.ones((2, tokens, tokens), bool)
    less[:, :, 0] = False
    place = np.arange(tokens)[None].repeat(2, axis=0)
    rows = np.arange(2)

    def both(seen: np.ndarray) -> Seen:
        return Seen(
            mask=seen,
            key_seq=rows[:, None].repeat(tokens, axis=1),
            key_pos=place,
            query_seq=rows,
            query_pos=place,
            query_real=np.ones((2, tokens), bool),
        )

    ours, theirs = run(seen=both(less)), run(seen=both(mask))
    ours.numbers = theirs.numbers = {"a": 0, "b": 1}
    listed = [one.seq for one in compare(ours, theirs, 1e-3).unlike]
    assert (listed.count("a"), listed.count("b")) == (32, 32)


def test_padding_is_seen_as_nobodys() -> None:
    ours = see(MASK[:, 1:], [0] * 11, list(range(1, 12)))
    theirs = see(MASK, [PADDING, *[0] * 11], [-1, *range(1, 12)])
    found = compare(run(seen=ours), run(seen=theirs), 1e-3)
    assert [one.position for one in found.unlike] == [8, 9, 10, 11]
    assert found.unlike[0].second[0] == -1


def test_queries_that_see_a_key_nobody_can_tell_are_left_out() -> None:
    seen = see(MASK, [0] * 9 + [AMBIGUOUS, 0, 0], list(range(12)))
    assert sorted(views(seen, 0)) == [8]
