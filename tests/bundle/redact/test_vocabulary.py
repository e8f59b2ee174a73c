# ruff: noqa: E501  a line of data is as long as it is
from __future__ import annotations

import pytest

from mlxdiag.bundle.redact.vocabulary import LONGEST_NUMBER, Vocabulary, words


@pytest.mark.parametrize(
    "name",
    [
        "gemma4_text", "models/cache.py", "RotatingKVCache", "bfloat16", "fp16", "q4_0", "mxfp4", "e4b", "self_attn.q_proj",
        "language_model.model.layers.0.mlp.down_proj.weight", "mlx-community/gemma-3-12b-it-4bit", "Qwen/Qwen3-8B", "MD101",
        "0.32.2", "2201", "x86_64",
    ],
)  # fmt: skip
def test_names_of_the_field_are_known(name):
    assert Vocabulary().knows(name)


@pytest.mark.parametrize(
    "name",
    [
        "acme", "gemma-acme", "kestrel_cache", "AcmeCache", "a1b2c3d4", "0d9c1e5a", "f3k9x2q7", "1" * (LONGEST_NUMBER + 1),
        "Zorblax", "x9y8z7w6v5u4", "abcdefghijkl",
    ],
)  # fmt: skip
def test_what_no_library_is_called_is_not(name):
    assert not Vocabulary().knows(name)


def test_a_word_that_was_asked_for_is_known():
    assert Vocabulary(["acme-7b"]).knows("acme-7b")
    assert not Vocabulary(["acme-7b"]).knows("acme")


def test_no_word_by_which_people_speak_is_in_the_list():
    assert not words() & {
        "please",
        "hello",
        "you",
        "my",
        "me",
        "salary",
        "doctor",
        "jane",
        "john",
    }
