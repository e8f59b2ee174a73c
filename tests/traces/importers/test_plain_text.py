from __future__ import annotations

import pytest

from mlxdiag.errors import UnreadableError
from tests.traces.importers.reading import codes, imported, steps_of


def classes(text):
    return "".join(step["rows"][0]["classes"] for step in steps_of(text))


def test_reserved_tokens_in_a_row():
    text = "<unused2115><unused2102><unused2120><unused2115>"
    assert classes(text) == "rrrr"
    assert ("MD601", "error") in codes(text)


def test_pads_in_a_row():
    assert classes("The answer is <pad><pad><pad><pad><pad>") == "tttppppp"
    assert ("MD602", "error") in codes("<pad><pad><pad><pad><pad>")


def test_tokens_of_other_tokenizers():
    assert classes("[PAD] [PAD] [unused5] <|reserved_special_token_7|>") == "pprr"


def test_lines_are_one_answer():
    steps = steps_of("<pad>\n<pad>\n<pad>\n<pad>")
    assert {step["rows"][0]["seq"] for step in steps} == {"answer-1"}
    assert ("MD602", "error") in codes("<pad>\n<pad>\n<pad>\n<pad>")


def test_words_between_are_counted_and_not_kept():
    (step,) = steps_of("my secret <unused1><unused2> my")
    assert step["rows"][0] == {"seq": "answer-1", "emitted": 5, "classes": "ttrrt", "ids": [0, 1, 2, 3, 0]}


def test_a_single_pad_is_no_run():
    assert codes("<pad>") == []


@pytest.mark.parametrize(
    "text",
    [
        "The model answers with <unused2115> and then <unused2102>, never with <unused7>.",
        "<b>bold</b> <i>text</i>",
        "a < b and b > c",
        "see [PAD] in the docs",
        '  "content": "<pad><pad><pad><pad>",',
    ],
)
def test_a_text_about_tokens_is_no_answer(text):
    with pytest.raises(UnreadableError):
        imported(text)
