from __future__ import annotations

import pytest

from mlxdiag.bundle.detect.noise import is_noise


@pytest.mark.parametrize(
    "text", ["Q9w8e7R6t5y4U3i2o1P0", "9f86d081884c7d65", "SGVsbG8gQW5uYWJlbCwgdGhl", "c0ffee254729296a"]
)
def test_keys_and_hashes(text):
    assert is_noise(text, commit=False)


@pytest.mark.parametrize(
    "text",
    [
        "RepositoryNotFoundError",
        "num_key_value_heads",
        "type=Gemma3ForCausalLM",
        "language_model",
        "0.32.2+d78bf58",
        "7.4803829193115234e-06",
    ],
)
def test_names_are_none(text):
    assert not is_noise(text, commit=False)


def test_a_commit_is_none_where_the_line_says_so():
    digest = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b"
    assert is_noise(digest, commit=False)
    assert not is_noise(digest, commit=True)


@pytest.mark.parametrize(
    "name", ["Gemma3ForConditionalGeneration", "kIOGPUCommandBufferCallbackErrorTimeout"]
)
def test_names_of_classes_are_none(name):
    assert not is_noise(name, commit=False)
