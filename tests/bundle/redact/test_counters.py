from __future__ import annotations

import pytest

from mlxdiag.bundle.redact.counters import counts, is_shape, parts_of, plausible


def test_a_key_is_read_word_by_word():
    assert parts_of("#numNew_tokens-per") == ["num", "new", "tokens", "per"]


@pytest.mark.parametrize(
    "key", ["offset", "n_ctx_slot", "num_new_tokens", "max_size", "#queue-req", "slidingWindow"]
)
def test_lengths_and_counts_count(key):
    assert counts(key)


@pytest.mark.parametrize("key", ["user_id", "pin", "code", "token", "out", "account", "name", ""])
def test_who_and_which_do_not(key):
    assert not counts(key)


def test_a_count_has_seven_digits_and_a_size_in_bytes_thirteen():
    assert plausible("1048576")
    assert not plausible("48213377")
    assert plausible("10000000")  # a round one
    assert plausible("9534832640", size=True)


def test_a_shape_has_two_large_lengths_or_multiples_of_64():
    assert is_shape("keys", [1, 8, 131072, 256])
    assert is_shape("weight", [384, 2048, 7168])
    assert not is_shape("keys", [9906, 1917, 374])
    assert not is_shape("keys", [1] * 7)
    assert is_shape("offsets", [1167, 1055, 527, 112])  # a number a row
