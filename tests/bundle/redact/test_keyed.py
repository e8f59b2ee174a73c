# ruff: noqa: E501  a line of data is as long as it is
from __future__ import annotations

import pytest

from mlxdiag.bundle.redact.keyed import kind
from tests.bundle.cleaning import messages


@pytest.mark.parametrize(
    ("name", "rule"),
    [
        ("VLLM_API_KEY", "secret"), ("hf-token", "secret"), ("openaiApiKey", "secret"), ("system_prompt", "content"),
        ("prompt_token_ids", "token-ids"), ("remote_host", "host"), ("served-model-name", "model-name"), ("user_id", "person"),
        ("block_hash", "hash"), ("request_id", "id"),
    ],
)  # fmt: skip
def test_a_telling_name_is_known_by_its_last_words(name, rule):
    assert kind(name) == rule


@pytest.mark.parametrize(
    "name", ["prompt_len", "num_prompt_tokens", "seq_id", "layer_idx", "max_tokens", "offset", "k"]
)
def test_counts_and_positions_are_no_secret(name):
    assert kind(name) is None


@pytest.mark.parametrize(
    "text",
    [
        "prompt_len=1250", "prompt: 14 tokens, 98.2 tokens-per-sec", "input: (1, 8, 32, 256)", "key: [1, 8, 671, 256]",
        "host=127.0.0.1:8080", "model=gemma4_text", "#token: 9120, #new-token: 4096", "response: None", "user=0",
        "MLX_DISABLE_COMPILE=1", "CUDA_VISIBLE_DEVICES=0,1",
    ],
)  # fmt: skip
def test_what_is_only_a_number_or_a_public_name_stays(text):
    assert messages().clean(text) == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("token: 258027", "token: [key]"),
        ("token: accepted zorblax", "token: accepted [word]"),
        ("DOOR_CODE=4821", "[word]=[value]"),
        ("password window", "password [key]"),
        ("pin is 4821", "pin is [key]"),
        ("mlxcel::server: listening", "mlxcel::server: listening"),
        ("server=cache01", "server=[host]"),
        ("general.name str = zorblax 12", "general.name str = [model]"),
        ("password=window", "password=[key]"),
        ("password=window offset 1", "password=[key] offset 1"),
        ("password: open the window", "password: [key]"),
        ("Authorization: window cache", "Authorization: [key]"),
        ("--prompt 'cache window' --seed 1", "--prompt [text] --seed 1"),
        ("prompt=cache window offset", "prompt=[text]"),
        ("MLX_HOME=gemma", "MLX_HOME=[value]"),
        ("host=window", "host=[host]"),
        ("sampled_token=31337", "sampled_token=[ids]"),
        ("pid=4242", "pid=[id]"),
    ],
)
def test_known_words_go_where_their_name_tells(text, shown):
    assert messages().clean(text) == shown
