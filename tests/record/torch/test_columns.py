"""Where rows are, by what the caches of a forward say; numbers worked out by hand."""

from __future__ import annotations

from mlxdiag.models.events import AttentionEvent, Offset, StepEvent
from mlxdiag.record.torch.columns import Columns, columns_of


def call(kind: str | None, offset: Offset, cursor: int | None) -> AttentionEvent:
    return AttentionEvent(0, 0, None, kind, None, None, None, None, offset, cursor, 0, 0, None, 1)


def step(batch: int, *calls: AttentionEvent, uids: tuple[int, ...] = (1,)) -> StepEvent:
    return StepEvent("m1", batch, 1, list(calls), uids=list(uids))


def test_rows_at_one_offset_have_no_padding() -> None:
    assert columns_of(step(2, call("dense", 40, 40))) == Columns(40, [0, 0])


def test_rows_behind_padding_are_as_far_back_as_it_is_long() -> None:
    assert columns_of(step(2, call("batch", [40, 15], 40))) == Columns(40, [0, 25])
    assert columns_of(step(2, call("batch", [0, -25], 0))) == Columns(0, [0, 25])


def test_the_first_layer_that_counts_speaks_for_all() -> None:
    told = columns_of(step(1, call("recurrent", 0, 0), call("static", None, None), call("dense", 7, 7)))
    assert told == Columns(7, [0])


def test_padding_that_nobody_knows_stays_unknown() -> None:
    assert columns_of(step(2, call("batch", None, 40))) == Columns(40, None)


def test_without_a_cache_the_forward_begins_at_the_start() -> None:
    assert columns_of(step(2, uids=())) == Columns(0, [0, 0])


def test_of_a_forward_that_was_not_seen_nothing_is_known() -> None:
    event = step(2, uids=())
    event.unseen = "compiled"
    assert columns_of(event) == Columns(None, None)
