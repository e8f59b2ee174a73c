"""What a server announces of right padding: a prompt once, before the first of its pieces."""

from mlxdiag.replay import plan as planning
from mlxdiag.replay.padding import Announced, announced
from mlxdiag.traces.types import Family
from tests.replay.traces import trace

FAMILIES = {"full": Family(attention="full", cache="dense", layers=[0])}


def told(steps):
    laid = planning.lay(trace(steps, "llama"), FAMILIES)
    return announced(laid.ops)


def test_one_piece_is_announced_before_it():
    assert told("""
        {"step": 1, "rows": [{"seq": "a", "tokens": 9}, {"seq": "b", "tokens": 4, "right_padding": 5}]}
        {"step": 2, "phase": "finalize", "rows": [{"seq": "a"}, {"seq": "b"}]}
    """) == {0: Announced((9, 4), (0, 5))}


def test_pieces_of_one_prompt_are_announced_together_even_where_the_first_has_no_padding():
    assert told("""
        {"step": 0, "phase": "merge", "rows": [{"seq": "a"}, {"seq": "b"}]}
        {"step": 1, "rows": [{"seq": "a", "tokens": 4}, {"seq": "b", "tokens": 4}]}
        {"step": 2, "rows": [{"seq": "a", "tokens": 4}, {"seq": "b", "tokens": 2, "right_padding": 2}]}
        {"step": 3, "rows": [{"seq": "a", "tokens": 1}, {"seq": "b", "tokens": 0, "right_padding": 1}]}
        {"step": 4, "phase": "finalize", "rows": [{"seq": "a"}, {"seq": "b"}]}
    """) == {1: Announced((9, 6), (0, 3))}


def test_tokens_decoded_before_a_prompt_are_no_part_of_it():
    assert told("""
        {"step": 1, "rows": [{"seq": "a", "tokens": 4}, {"seq": "b", "tokens": 4}]}
        {"step": 2, "phase": "decode", "rows": [{"seq": "a", "tokens": 1}, {"seq": "b", "tokens": 1}]}
        {"step": 3, "rows": [{"seq": "a", "tokens": 3}, {"seq": "b", "tokens": 1, "right_padding": 2}]}
        {"step": 4, "phase": "finalize", "rows": [{"seq": "a"}, {"seq": "b"}]}
    """) == {2: Announced((3, 1), (0, 2))}


def test_nothing_is_announced_where_nothing_is_padded():
    assert (
        told("""
        {"step": 1, "rows": [{"seq": "a", "tokens": 4}, {"seq": "b", "tokens": 4}]}
        {"step": 2, "phase": "finalize", "rows": [{"seq": "a"}, {"seq": "b"}]}
    """)
        == {}
    )
