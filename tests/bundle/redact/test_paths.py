from __future__ import annotations

import pytest

from mlxdiag.bundle.redact.paths import tail_of
from mlxdiag.bundle.redact.vocabulary import Vocabulary
from tests.bundle.cleaning import messages


@pytest.mark.parametrize(
    ("path", "tail"),
    [
        ("/Users/jane/.venv/lib/python3.11/site-packages/mlx_lm/models/cache.py", "mlx_lm/models/cache.py"),
        ("C:\\Users\\jane\\site-packages\\torch\\nn\\functional.py", None),
        ("/home/zorblax/mlx_lm/models/cache.py", "mlx_lm/models/cache.py"),
        ("/home/zorblax/mlx/kestrel/cache.py", "cache.py"),
        ("/home/zorblax/kestrel.py", None),
        ("/home/zorblax/models/gemma", None),
    ],
)
def test_the_tail_is_the_librarys_own_or_a_known_file_name(path, tail):
    assert tail_of(path, Vocabulary()) == tail


@pytest.mark.parametrize("route", ["/v1/chat/completions", "/health", "/v1/models"])
def test_routes_stay(route):
    assert messages().clean(f"GET {route}") == f"GET {route}"


@pytest.mark.parametrize("path", ["/data/models/gemma", "./models/gemma", "../x", "/v1/zorblax", "~/models"])
def test_folders_go_even_where_their_names_are_known(path):
    assert messages().clean(f"load {path}") == "load [path]"
