import pytest

from mlxdiag.audit.engine.names import fitting, pick
from mlxdiag.errors import UsageError

KNOWN = ("gemma", "gemma2", "gemma3", "llama", "qwen3")


@pytest.mark.parametrize(
    ("asked", "picked"),
    [
        ((), KNOWN),
        (("llama",), ("llama",)),
        (("qwen3", "gemma"), ("gemma", "qwen3")),
        (("qwen3, gemma",), ("gemma", "qwen3")),
        (("gemma*",), ("gemma", "gemma2", "gemma3")),
        (("gemma?", "gemma2"), ("gemma2", "gemma3")),
    ],
)
def test_names_and_patterns_are_picked_in_the_known_order(asked, picked):
    assert pick("family", KNOWN, asked) == picked


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ("gema2", "no family 'gema2' \\(did you mean gemma2"),
        ("zzz", "no family 'zzz';"),
        ("phi*", "no family fits 'phi\\*'"),
        (" , ", "no family is named"),
        ("", "no family is named"),
    ],
)
def test_a_name_that_is_not_known_is_refused(asked, says):
    with pytest.raises(UsageError, match=says):
        pick("family", KNOWN, (asked,))


def test_of_what_is_asked_for_that_stays_which_fits_anything():
    assert fitting(["gemma2", "llama"], ["gemma*,phi", "llama", "q*"]) == ("gemma*", "llama")
