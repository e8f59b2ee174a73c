# ruff: noqa: E501  a line of data is as long as it is
from __future__ import annotations

import pytest

from mlxdiag.bundle.redact.heads import stamp, times


@pytest.mark.parametrize(
    "text",
    [
        "2026-08-30 11:02:17,553", "2026-07-24T09:15:02.114390Z", "2026-09-14T08:00:00.000-03:00", "09-14 08:00:01",
        "30/Aug/2026 11:02:17", "2026/09/14 - 08:00:01", "Sep 14 08:00:01",
    ],
)  # fmt: skip
def test_days_with_a_time(text):
    match = times().search(f"x {text} y")
    assert match is not None
    assert match.group() == text
    assert stamp(text) is not None


@pytest.mark.parametrize(
    "text",
    [
        "9906-19-17 37:26:41",
        "1984-03-12",
        "2026-09-14 25:00:01",
        "1984-03-12 08:00",
        "12:34",
    ],
)
def test_what_only_looks_like_one(text):
    assert times().search(text) is None
    assert stamp(text) is None


def test_of_a_day_that_is_none_only_the_clock_is_one():
    match = times().search("2026-13-01 08:00:01")
    assert match is not None
    assert match.group() == "08:00:01"


def test_a_fraction_has_the_digits_of_a_fraction():
    match = times().search("2026-08-30 11:02:17.9906")
    assert match is None or "9906" not in match.group()


def test_kinds_of_times_are_told_apart():
    first, second = stamp("2026-08-30 11:02:17,553 - INFO - a"), stamp("INFO 09-14 08:00:01 [a.py:1] b")
    assert first is not None
    assert second is not None
    assert first != second
    assert stamp("INFO: a") is None
