"""What one line proves, by the arithmetic of the public reports."""

from __future__ import annotations

import pytest

from mlxdiag.traces.importers.mlxcel_discard import PROMPT, VERIFY, Discard, tiles


def line(**fields):
    none = dict.fromkeys(("kind", "seq", "q", "offset", "total", "slice", "chunk"))
    return Discard(**{**none, "m": 160, "k": 671, "text": "", **fields})


def test_tiles_of_32():
    assert [tiles(tokens) for tokens in (0, 1, 32, 153, 160)] == [0, 32, 32, 160, 160]


@pytest.mark.parametrize(
    ("fields", "queries"),
    [
        ({"q": 8}, 8),
        ({"offset": 2048, "total": 2201}, 160),  # 153 padded
        ({"offset": 2048, "total": 2208}, 160),  # as it is
        ({"offset": 511, "total": 9000}, 160),  # 671 - 160 = 511 keys before it are all
        ({"offset": 2048, "total": 9000}, None),  # a mask of 160 for a longer piece
        ({"offset": 2048, "total": 9000, "chunk": 160}, 160),
        ({}, None),
    ],
)
def test_queries(fields, queries):
    assert line(**fields).queries() == queries


@pytest.mark.parametrize(
    ("fields", "fallback"),
    [
        ({"q": 160}, "windowed"),
        ({"text": "DEBUG once more"}, "windowed"),
        ({"text": "2026-06-23T23:59:59Z WARN"}, "sliced"),
        ({"text": "2026-06-24T00:00:01Z WARN"}, None),
        ({}, None),
    ],
)
def test_fallbacks(fields, fallback):
    assert line(**fields).fallback() == fallback


@pytest.mark.parametrize(
    ("fields", "window", "verify"),
    [
        ({"kind": VERIFY}, None, True),
        ({"m": 9, "k": 10, "q": 2}, 8, True),
        ({"m": 9, "k": 10}, 8, True),
        ({"m": 9, "k": 9, "q": 2}, 8, False),  # 7 keys before it: any ring returns those
        ({"m": 9, "k": 10, "q": 3}, 8, False),
        ({"m": 9, "k": 10, "q": 2}, None, False),
        ({"m": 9, "k": 10, "q": 2, "kind": PROMPT[0]}, 8, False),
        ({}, 512, False),
    ],
)
def test_verifies(fields, window, verify):
    assert line(**fields).is_verify(window) == verify
