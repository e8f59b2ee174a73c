from __future__ import annotations

import pytest

from mlxdiag.bundle.redact import spared


def kept(text: str) -> list[str]:
    found: list[str] = []
    spared.clean(text, lambda one: found.append(one) or "#")
    return found


@pytest.mark.parametrize(
    ("text", "spares"),
    [
        ("2026-08-30 11:02:17,553 - x", ["2026-08-30 11:02:17,553"]),
        ("commit d78bf58", ["commit d78bf58"]),
        ("torch 2.6.0+cu124", ["2.6.0+cu124"]),
        ("at http://localhost:8080/v1/models x", ["http://localhost:8080/v1/models"]),
        ("multiplied (2x3 and 4x5)", ["(2x3 and 4x5)"]),
    ],
)
def test_spares(text, spares):
    assert kept(text) == spares


@pytest.mark.parametrize(
    "text",
    [
        "zorblax 1.2.3+d78bf58",
        "commit 48213377",
        "http://localhost:8080/v1/model/user",
        "torch 2.6.0+deadbeefcafe",
        "1984-03-12",
    ],
)
def test_spares_nothing_else(text):
    assert kept(text) == []


def test_of_many_times_only_two():
    assert len(kept("08:00:01 08:00:02 08:00:03")) == spared.MOST_TIMES
