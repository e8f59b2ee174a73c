from __future__ import annotations

import pytest
from msgspec import UNSET

from mlxdiag.traces.importers.tokens import Token, class_of, finish_of, logprob_of, pieces
from mlxdiag.traces.types import Tokens

GEMMA = Tokens(pad=0, eos=[1, 106], reserved=[(6, 104)], control=[50])


@pytest.mark.parametrize(
    ("token", "known", "letter"),
    [
        (Token(text="<unused2115>"), None, "r"),
        (Token(text="<|reserved_special_token_12|>"), None, "r"),
        (Token(text="<pad>"), None, "p"),
        (Token(text="<end_of_turn>"), None, "e"),
        (Token(text="<|im_start|>"), None, "c"),
        (Token(text="hello"), None, "t"),
        (Token(text="<b>"), None, "t"),
        (Token(text="!", ident=0), None, "0"),
        (Token(ident=0), GEMMA, "p"),
        (Token(ident=106), GEMMA, "e"),
        (Token(ident=7), GEMMA, "r"),
        (Token(ident=4000), GEMMA, "t"),
        (Token(text="<unused50>", ident=50), GEMMA, "c"),
        (Token(text="odd", special=True), None, "c"),
    ],
)
def test_classes(token, known, letter):
    assert class_of(token, known) == letter


def test_a_text_is_cut_at_its_special_tokens():
    assert [token.text for token in pieces("so <pad><pad> it")] == ["so ", "<pad>", "<pad>", " it"]
    assert [token.text for token in pieces("so  it <pad>", words=True)] == ["so", "it", "<pad>"]
    assert list(pieces("")) == []


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, None),
        (float("nan"), "nan"),
        ("nan", "nan"),
        ("NaN", "nan"),
        (-1, -1.0),
        (float("-inf"), float("-inf")),
        ("low", UNSET),
        (True, UNSET),
        ([], UNSET),
    ],
)
def test_null_nan_and_a_number_are_three_things(value, expected):
    found = logprob_of(value)
    assert found is expected or found == expected


@pytest.mark.parametrize(
    ("reason", "finish"),
    [
        ("stop", "eos"),
        ("length", "length"),
        ("eos_token", "eos"),
        ("repetition", "repetition"),
        ("why", None),
    ],
)
def test_finishes(reason, finish):
    assert finish_of(reason) == finish
