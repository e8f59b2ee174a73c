"""No token twice, none of them special; a sequence too long for its vocabulary is refused."""

import numpy as np
import pytest

from mlxdiag.errors import UnjudgedError
from mlxdiag.replay import plan, prompts, tape
from mlxdiag.traces.types import Family, Tokens
from tests.replay.traces import trace

FAMILIES = {"full": Family(attention="full", cache="dense", count=2)}


def laid(steps: str):
    return plan.lay(trace(steps, "llama"), FAMILIES, source="t")


ADOPTED = """{"step": 1, "phase": "adopt", "rows": [{"seq": "a", "matched": 3, "entry": 28, "trimmed": 25}]}
{"step": 2, "rows": [{"seq": "a", "offset": 3, "tokens": 2}]}"""
TWO = """{"step": 1, "rows": [{"seq": "a", "offset": 0, "tokens": 40}]}
{"step": 2, "rows": [{"seq": "b", "offset": 0, "tokens": 40}]}"""
REJECTED = """{"step": 1, "rows": [{"seq": "a", "offset": 0, "tokens": 9}]}
{"step": 2, "phase": "rollback", "rows": [{"seq": "a", "asked": 4, "done": 4}]}
{"step": 3, "rows": [{"seq": "a", "offset": 5, "tokens": 4}]}"""


def test_no_token_stands_twice_and_sequences_differ():
    made = prompts.prompts(laid(TWO), 200)
    ids = {seq: made[seq].of(list(range(40))) for seq in ("a", "b")}
    assert all(len(set(row.tolist())) == 40 for row in ids.values())
    assert not np.array_equal(ids["a"], ids["b"])


def test_special_ids_are_never_drawn():
    tokens = Tokens(pad=3, eos=[4], reserved=[(10, 90)], control=[95])
    ids = prompts.prompts(laid(TWO), 200, tokens=tokens)["a"].of(list(range(40)))
    assert not set(ids.tolist()) & ({0, 3, 4, 95} | set(range(10, 91)))


def test_a_replaced_token_differs_from_the_rejected_one_and_from_its_neighbours():
    prompt = prompts.prompts(laid(REJECTED), 200)["a"]
    first = prompt.of(list(range(9)))
    second = prompt.of([tape.code(p, 1) for p in range(5, 9)])
    assert not set(first.tolist()) & set(second.tolist())


def test_an_adopted_entry_may_be_longer_than_the_sequence_itself():
    prompt = prompts.prompts(laid(ADOPTED), 200)["a"]
    entry = prompt.of([*range(3), *(tape.code(p, tape.FOREIGN) for p in range(3, 28))])
    assert len(set(entry.tolist())) == 28
    assert entry[:3].tolist() == prompt.of([0, 1, 2]).tolist()


def test_padding_is_what_servers_pad_with():
    assert prompts.prompts(laid(TWO), 200)["a"].of([0, -1, -1])[1:].tolist() == [0, 0]


def test_a_vocabulary_too_small_for_distinct_tokens_is_unjudged():
    with pytest.raises(UnjudgedError, match="a needs 40 different tokens and the model has 29"):
        prompts.prompts(laid(TWO), 30)
