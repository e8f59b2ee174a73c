import sys

import pytest

from mlxdiag.errors import UnjudgedError, UsageError
from mlxdiag.models import backends


@pytest.mark.parametrize(
    ("libraries", "expected"),
    [
        ({"torch": "2.13.0", "transformers": "5.24.0"}, "torch"),
        ({"mlx": "0.32.4", "mlx-lm": "0.32.2"}, "mlx"),
        # mlx-lm needs transformers for its tokenizers: both installed is no word on which of them ran.
        ({"mlx": "0.32.4", "mlx-lm": "0.32.2", "transformers": "5.24.0"}, "mlx"),
        ({}, "mlx"),
        ("transformers", "mlx"),
    ],
)
def test_a_trace_is_replayed_on_the_library_that_it_was_recorded_from(libraries, expected):
    assert backends.of({"libraries": libraries}) == expected


def test_a_trace_that_names_no_library_is_replayed_on_mlx():
    assert backends.of(None) == backends.of({"os": "macOS 26"}) == "mlx"


@pytest.mark.parametrize(
    ("text", "names"),
    [("torch", ("torch",)), ("mlx, torch", ("mlx", "torch")), ("mlx,mlx", ("mlx",))],
)
def test_backends_are_named_once_each_in_the_order_given(text, names):
    assert backends.parse(text) == names


@pytest.mark.parametrize("text", ["jax", "mlx,jax", "", ","])
def test_an_unknown_backend_or_none_is_refused(text):
    with pytest.raises(UsageError, match="known: mlx, torch"):
        backends.parse(text)


@pytest.mark.parametrize(("name", "module"), [("mlx", "mlx_lm"), ("torch", "torch")])
def test_a_library_that_is_not_installed_is_named_with_what_to_install(name, module, monkeypatch):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(UnjudgedError, match=f"{module} is not installed.*pip install"):
        backends.require(name)
