from __future__ import annotations

import pytest

from mlxdiag.bundle.redact.publishers import is_public
from mlxdiag.bundle.redact.vocabulary import Vocabulary


@pytest.mark.parametrize("name", ["google/gemma-3-12b-it", "Qwen/Qwen3-8B", "gemma4_text", "gpt-oss-20b"])
def test_published_names(name):
    assert is_public(name, Vocabulary())


@pytest.mark.parametrize(
    "name", ["cache/model", "user/gemma-3-12b", "model", "mlx/model", "google/", "google/zorblax"]
)
def test_names_of_somebody(name):
    assert not is_public(name, Vocabulary())


def test_a_name_that_was_asked_for():
    assert is_public("zorblax/model", Vocabulary(["zorblax/model"]))
