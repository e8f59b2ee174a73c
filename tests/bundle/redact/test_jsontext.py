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


def test_the_text_of_a_log_s_record_is_cleaned_as_a_message_and_that_of_a_chat_goes():
    text = "mask shorter than key length, zorblax"
    clean = text.replace("zorblax", "[word]")
    assert shown({"level": "WARN", "message": text}) == {"level": "WARN", "message": clean}
    nested = {"level": "warn", "fields": {"message": text, "key_len": 767}}
    assert shown(nested) == {"level": "warn", "fields": {"message": clean, "key_len": 767}}
    assert shown({"message": text}) == {"message": f"[{len(text)} characters]"}
    assert shown({"level": "zorblax", "message": text}) == {
        "level": "[7 characters]",
        "message": f"[{len(text)} characters]",
    }


def test_a_time_of_a_record_stays_and_a_day_does_not():
    assert shown({"time": "2026-07-24T09:15:02.871204Z"}) == {"time": "2026-07-24T09:15:02.871204Z"}
    assert shown({"time": "1984-03-12"}) == {"time": "[10 characters]"}


def test_json_that_is_nested_without_end_is_cut_off_at_once():
    assert messages().clean("mask " + "[" * 4000) == "mask [json]"
