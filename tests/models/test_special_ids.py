from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mlxdiag.errors import UnreadableError
from mlxdiag.models.special_ids import fitting, of_directory
from mlxdiag.traces.types import Tokens

ADDED = [
    (0, "<pad>", True),
    (6, "<unused0>", False),
    (7, "<unused1>", False),
    (8, "<start_of_thought>", True),
    (9, "<unused3>", True),
    (105, "<start_of_turn>", True),
    (128002, "<|reserved_special_token_0|>", True),
]
EXPECTED = Tokens(pad=0, eos=[1], reserved=[(6, 7), (9, 9), (128002, 128002)], control=[0, 8, 105])


def _tokenizer() -> dict[str, Any]:
    return {
        "added_tokens": [{"id": id_, "content": name, "special": special} for id_, name, special in ADDED]
    }


def test_reserved_slots_and_control_ids_come_from_the_tokenizer(tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_text(json.dumps(_tokenizer()))
    assert of_directory(tmp_path, Tokens(pad=0, eos=[1])) == EXPECTED


def test_the_older_file_says_the_same(tmp_path: Path) -> None:
    decoder = {str(id_): {"content": name, "special": special} for id_, name, special in ADDED}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"added_tokens_decoder": decoder}))
    assert of_directory(tmp_path, Tokens(pad=0, eos=[1])) == EXPECTED


def test_without_tokenizer_files_what_is_known_stays(tmp_path: Path) -> None:
    assert of_directory(tmp_path, Tokens(pad=3)) == Tokens(pad=3)
    assert of_directory(tmp_path, None) is None


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[]",
        '{"added_tokens": [{"id": "x", "content": ""}]}',
        '{"added_tokens": [{"id": 1e999, "content": ""}]}',
        "[" * 10**5,
    ],
)
def test_a_broken_tokenizer_file_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / "tokenizer.json").write_text(text)
    with pytest.raises(UnreadableError, match=r"tokenizer\.json: "):
        of_directory(tmp_path, None)


def test_reserved_ids_beyond_the_vocabulary_are_another_tokenizers() -> None:
    whole = Tokens(pad=0, reserved=[(6, 104), (256001, 262143)])
    assert fitting(whole, 262144) == whole
    assert fitting(whole, 262143) == Tokens(pad=0)
    assert fitting(Tokens(reserved=[(6, 104)]), 104) is None
    assert fitting(whole, None) is whole
    assert fitting(None, 8) is None
