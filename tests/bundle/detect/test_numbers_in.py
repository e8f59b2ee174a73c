# ruff: noqa: E501  a line of data is as long as it is
from __future__ import annotations

import pytest

from mlxdiag.bundle.detect.numbers_in import private


@pytest.mark.parametrize(
    "line",
    [
        "4111 1111 1111 1111",
        "4929-1234-5678-9010",
        "30569309025904",
        "+49 170 5550 1234",
        "(020) 7946 0958",
        "078-05-1120",
    ],
)
def test_numbers_of_people(line):
    assert list(private(line)) == ["a number too long for a length"]


@pytest.mark.parametrize(
    "line", ["token 48451", "sampled_token=31337", "48451 -> ' of'", "48451:0.31", "token id: 90210"]
)
def test_token_ids(line):
    assert list(private(line)) == ["a token id"]


@pytest.mark.parametrize(
    "line",
    [
        "2048 2201 2208 0671", "#new-token: 4096, #token: 9120", "tokens 153 padded 160", "2026-09-14 08:00:01,100",
        "0.30000000000000004", "chunk 4096 -> 8192", "token 14 tokens", "131072", "(+512)",
    ],
)  # fmt: skip
def test_lengths_are_left_alone(line):
    assert list(private(line)) == []
