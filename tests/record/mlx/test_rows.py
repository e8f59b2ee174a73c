"""Rows of a forward from what a scheduler holds; numbers worked out by hand."""

from __future__ import annotations

from mlxdiag.models.events import AttentionEvent, StepEvent
from mlxdiag.record.mlx.rows import DecodeFeed, PromptFeed, Sequence, left_padding


def call(kind: str, left: list[int] | None) -> AttentionEvent:
    event = AttentionEvent(0, 0, None, kind, None, None, None, None, None, 0, 0, 0, 0, 1)
    event.left_padding = left
    return event


def step(batch: int, q: int, *calls: AttentionEvent) -> StepEvent:
    return StepEvent("m1", batch, q, list(calls))


def three() -> list[Sequence]:
    return [Sequence("a", total=41), Sequence("b", total=8), Sequence("c", total=30)]


def test_a_prompt_is_fed_in_pieces_and_the_short_rows_are_padded_behind() -> None:
    feed = PromptFeed(three(), [0, 0, 20], [20, 7, 9])
    first, again = feed(step(3, 16)), feed(step(3, 4))
    assert first is not None
    assert again is not None
    assert [(r.offset, r.tokens, r.right_padding) for r in first[0]] == [(0, 16, None), (0, 7, 9), (20, 9, 7)]
    assert [(r.offset, r.tokens, r.right_padding) for r in again[0]] == [(16, 4, None), (7, 0, 4), (29, 0, 4)]
    assert [(r.seq, r.total) for r in first[0]] == [("a", 41), ("b", 8), ("c", 30)]


def test_a_batch_is_a_prefill_only_while_every_row_begins() -> None:
    begins, goes_on = PromptFeed(three(), [0, 0, 0], [5, 5, 5]), PromptFeed(three(), [0, 0, 3], [5, 5, 5])
    phases = [named[1] for named in (begins(step(3, 5)), goes_on(step(3, 5))) if named is not None]
    assert phases == ["prefill", "chunk"]


def test_a_decode_says_which_tokens_still_belong_to_the_prompt() -> None:
    named = DecodeFeed(three(), [40, 8, 29])(step(3, 1))
    assert named is not None
    assert named[1] == "decode"
    assert [(r.offset, r.tokens, r.total) for r in named[0]] == [(40, 1, 41), (8, 1, None), (29, 1, 30)]


def test_the_model_is_remembered_for_what_is_told_later() -> None:
    sequences = three()
    DecodeFeed(sequences, [1, 1, 1])(step(3, 1))
    assert {s.model for s in sequences} == {"m1"}


def test_a_forward_of_another_batch_is_not_named() -> None:
    assert DecodeFeed(three(), [1, 1, 1])(step(2, 1)) is None
    assert PromptFeed(three(), [0, 0, 0], [5, 5, 5])(step(4, 5)) is None


def test_padding_is_that_of_the_plain_batch_not_of_a_ring_that_has_wrapped() -> None:
    ring, plain = call("batch_rotating", [-4, 3]), call("batch", [0, 7])
    assert left_padding(step(2, 1, ring, plain)) == [0, 7]
    assert left_padding(step(2, 1, ring)) == [-4, 3]
    assert left_padding(step(2, 1, call("batch", None))) == [0, 0]
