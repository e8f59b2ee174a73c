from __future__ import annotations

import json

from tests.bundle.cleaning import messages


def shown(value: object) -> object:
    return json.loads(messages().clean(json.dumps(value)))


def test_numbers_under_known_names_stay_and_texts_become_their_length():
    assert shown({"prompt_len": 12, "content": "kiwi", "done": False, "role": "user"}) == {
        "prompt_len": 12, "content": "[4 characters]", "done": False, "role": "user",
    }  # fmt: skip


def test_unknown_names_go_with_their_values():
    assert shown({"zorblax": 1, "offset": 2}) == {"offset": 2}


def test_ids_and_long_lists_go():
    assert shown({"token_ids": [1, 2], "id": 5, "shape": [1, 8, 32, 256], "offset": list(range(9))}) == {
        "token_ids": "[2 numbers]", "id": "[id]", "shape": [1, 8, 32, 256], "offset": "[9 numbers]",
    }  # fmt: skip


def test_an_error_is_cleaned_as_a_message():
    text = "[broadcast_shapes] Shapes (1,2) and (3,4) cannot be broadcast. zorblax"
    assert shown({"error": {"message": text}}) == {"error": {"message": text.replace("zorblax", "[word]")}}


def test_json_that_was_cut_off_goes_to_the_end():
    assert messages().clean('mask {"offset": 1, "content": "kiwi') == "mask [json]"


def test_braces_that_are_no_json_are_left_to_the_other_rules():
    text = "chunked_prefill_start{seq_id=seq-3 prompt_len=1250}"
    assert messages().clean(text) == text
