from __future__ import annotations

import pytest

from tests.bundle.cleaning import messages


def cleaned(text: str) -> str:
    return messages().clean(text, command=True)


@pytest.mark.parametrize(
    "text",
    [
        "mlx_lm.server --model mlx-community/gemma-3-12b-it-4bit --port 8080",
        "python -m mlx_lm generate --max-tokens 512 --temp 0.0",
        "vllm serve google/gemma-3-12b-it --kv-cache-dtype fp8",
        "curl http://localhost:8080/v1/models \\",
    ],
)
def test_options_numbers_and_known_choices_stay(text):
    assert cleaned(text) == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("mlx_lm.generate --temp 0 the model is", "mlx_lm.generate --temp 0 [text]"),
        ("mlx_lm.generate the model --temp 0", "mlx_lm.generate [text] --temp 0"),
        ("mlx_lm.generate --verbose window", "mlx_lm.generate --verbose [text]"),
        ("mlx_lm.server --cache window-cache", "mlx_lm.server --cache [text]"),
        ("mlx_lm.server --model cache/model", "mlx_lm.server --model [model]"),
        ("ollama run gemma3 the model", "ollama run gemma3 [text]"),
    ],
)
def test_what_a_person_typed_goes(text, shown):
    assert cleaned(text).rstrip() == shown


def test_behind_an_option_in_a_message_as_well():
    assert messages().clean("argv: mlx_lm --temp 0 the model is").rstrip() == "argv: mlx_lm --temp 0 [text]"


def test_of_a_message_what_stands_behind_an_operator_is_no_command_any_more():
    text = "argv: mlx_lm --temp 0 | offset mask"
    assert messages().clean(text) == text
    assert cleaned("mlx_lm --temp 0 | offset mask").rstrip() == "mlx_lm --temp 0 | [text]"
