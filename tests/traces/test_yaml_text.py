"""YAML as JSON-like objects."""

from __future__ import annotations

import pytest
import yaml

from mlxdiag.traces.yaml_text import BadYaml, Loader, load


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e-7", 1e-7),
        ("1E5", 1e5),
        ("-3.e2", -300.0),
        ("+1.5e3", 1500.0),
        ("1.5", 1.5),
        ("12", 12),
        ("1e", "1e"),
        ("e5", "e5"),
        ("0.4.1", "0.4.1"),
        ("2026-01-02", "2026-01-02"),
        ("2026-01-02 03:04:05", "2026-01-02 03:04:05"),
        (".inf", float("inf")),
        ("none", "none"),
        ("null", None),
        ("~", None),
        ("", None),
        ("{7: 2, true: 3, null: 4, 1.5: 5}", {"7": 2, "true": 3, "null": 4, "1.5": 5}),
    ],
)
def test_scalars(text: str, value: object) -> None:
    assert load(text) == value
    assert type(load(text)) is type(value)


def test_other_users_of_the_library_are_not_affected() -> None:
    load("1e-7")
    assert yaml.safe_load("1e-7") == "1e-7"
    assert Loader.yaml_implicit_resolvers is not yaml.SafeLoader.yaml_implicit_resolvers


@pytest.mark.parametrize(
    ("text", "line"),
    [("a: [1", 0), ("a: 1\nb: {c\n\n\n", 1), ("a: 1\n\tb: 2", 1), ("a: b: c", 0), ("a: !!binary x", 0)],
)
def test_bad_text_says_where(text: str, line: int) -> None:
    with pytest.raises(BadYaml) as caught:
        load(text)
    assert caught.value.line == line
    assert "\n" not in caught.value.reason
