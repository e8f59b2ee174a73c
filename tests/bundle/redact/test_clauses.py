# ruff: noqa: E501  a line of data is as long as it is
from __future__ import annotations

import re

import pytest

from mlxdiag.bundle.redact.clauses import NEVER_IN_PROGRAMS, is_said, said, sentences


@pytest.mark.parametrize(
    "text",
    [
        "the model is a user", "THE MODEL IS A USER", "the, model, is, a, user", "mask the cache", "a 1 model 2 is 3",
        "model user prompt window mask cache key value",
    ],
)  # fmt: skip
def test_a_sentence_that_no_library_says(text):
    assert list(sentences(text))


@pytest.mark.parametrize(
    "text",
    [
        "The size of tensor a (160) must match the size of tensor b (671) at non-singleton dimension 3",
        "prediction aborted, token repeat limit reached",
        "mask shorter than key length, discarding caller mask mask_len=256",
        "Traceback (most recent call last):",
        "prefill batch size 4",
    ],
)
def test_what_libraries_say(text):
    assert list(sentences(text)) == []


def test_a_piece_that_is_added_is_seen():
    assert list(sentences("Cannot infer the shape of an empty array")) == []
    assert list(sentences("Cannot infer the shape of an empty user"))


def test_in_programs_words_like_is_are_no_sentence():
    assert list(sentences("if mask is None and cache is None", NEVER_IN_PROGRAMS)) == []
    assert list(sentences("mask the cache", NEVER_IN_PROGRAMS))


def test_said_is_what_holds_a_known_piece_and_no_unknown_sentence():
    assert is_said("Shapes (1,2) and (3,4) cannot be broadcast.")
    assert not is_said("Shapes (1,2) cannot be broadcast. the model is a user")
    assert not is_said("model cache")


def test_the_words_of_a_known_piece_are_known_where_they_stand():
    text = "Expecting property name enclosed in double quotes, kestrel"
    assert said(text) == {match.start() for match in re.finditer(r"\b(?!kestrel)[A-Za-z]+", text)}
    assert said("kestrel enclosed in quotes") == set()
    wait = "an empty run - please wait"
    assert wait.index("please") not in said(wait)
