from __future__ import annotations

import pytest

from mlxdiag.bundle.reproduce import serving
from mlxdiag.models.adapter import Skipped


@pytest.mark.parametrize(
    ("libraries", "name"),
    [
        ({"torch": "2.13.0", "transformers": "5.24.0"}, "transformers"),
        ({"mlx": "0.32.4", "mlx-lm": "0.32.2"}, "mlx-lm"),
        # A process may have imported both, for its tokenizer.
        ({"mlx-lm": "0.32.2", "transformers": "5.24.0"}, "mlx-lm"),
        ({}, "mlx-lm"),
    ],
)
def test_a_trace_is_of_the_library_that_its_header_names(libraries, name):
    assert serving.of({"libraries": libraries}).name == name
    assert serving.of(None).name == "mlx-lm"


def test_what_is_installed_and_cannot_be_used_says_why(monkeypatch):
    from mlxdiag.models.torch import library

    assert serving.unable(serving.LIBRARIES["torch"]) is None
    monkeypatch.setattr(library, "load", lambda: Skipped("transformers 4.1 is not supported"))
    assert "4.1 is not supported" in str(serving.unable(serving.LIBRARIES["torch"]))
