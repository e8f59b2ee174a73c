"""Forwards that feed a sequence from its first token again: what the plan makes of them. No model is built."""

import pytest

from mlxdiag.errors import UnreadableError
from mlxdiag.replay import oracle
from tests.replay.plans import lay

WHOLE = '"attention": [{{"family": "full", "offset": 0, "q": {0}, "k": {0}}}]'


def passes(*lengths):
    return "\n".join(
        f'{{"step": {step}, "rows": [{{"seq": "a", "offset": 0, "tokens": {n}}}], {WHOLE.format(n)}}}'
        for step, n in enumerate(lengths, 1)
    )


def test_without_a_cache_every_forward_is_a_whole_pass():
    laid = lay(passes(5, 6, 7), header="scheduler: {cacheless: true}\n")
    assert [(op.feeds[0].start, op.feeds[0].tokens, op.cacheless) for op in laid.forwards] == [
        (0, 5, True),
        (0, 6, True),
        (0, 7, True),
    ]
    assert laid.lengths == {"a": 7}
    assert oracle.histories(laid) == {"a": list(range(7))}


def test_a_program_that_also_keeps_a_cache_runs_that_part_with_one():
    more = """
        {"step": 3, "rows": [{"seq": "b", "offset": 0, "tokens": 4}], "attention": [{"family": "full", "cache": "dense", "offset": 0, "q": 4, "k": 4}]}
        {"step": 4, "rows": [{"seq": "b", "offset": 4, "tokens": 1}], "attention": [{"family": "full", "cache": "dense", "offset": 4, "q": 1, "k": 5}]}"""
    laid = lay(passes(5, 6) + more, header="scheduler: {cacheless: true}\n")
    assert [op.cacheless for op in laid.forwards] == [True, True, False, False]
    assert oracle.histories(laid) == {"a": list(range(6)), "b": list(range(5))}


def test_a_sequence_whose_layers_held_nothing_begins_again_on_fresh_caches():
    """As an engine computes a request anew that it had put out to make room."""
    laid = lay(passes(5, 8) + '\n{"step": 3, "rows": [{"seq": "a", "offset": 8, "tokens": 1}]}')
    assert [(op.feeds[0].start, op.feeds[0].tokens, op.anew) for op in laid.forwards] == [
        (0, 5, ()),
        (0, 8, ("a",)),
        (8, 1, ()),
    ]
    assert oracle.histories(laid) == {"a": list(range(9))}


def test_packed_rows_begin_again_one_by_one():
    laid = lay(
        """{"step": 1, "rows": [{"seq": "a", "offset": 0, "tokens": 5}]}
        {"step": 2, "rows": [{"seq": "a", "offset": 0, "tokens": 6}, {"seq": "b", "offset": 0, "tokens": 3}], "attention": [{"family": "full", "cache": "paged", "offset": [0, 0], "q": 9, "k": [6, 3]}]}"""
    )
    assert [(op.feeds[0].seq, op.anew) for op in laid.forwards] == [("a", ()), ("a", ("a",)), ("b", ())]


def test_a_scheduler_that_goes_back_to_0_alone_is_no_new_beginning():
    with pytest.raises(UnreadableError, match="a goes back to 0 while it holds 5"):
        lay(
            """{"step": 1, "rows": [{"seq": "a", "offset": 0, "tokens": 5}]}
            {"step": 2, "rows": [{"seq": "a", "offset": 0, "tokens": 1}]}"""
        )
