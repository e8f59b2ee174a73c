from __future__ import annotations

import pytest

from tests.bundle.cleaning import messages


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("mask t.i.l.d.a", "mask [encoded]"),
        ("mask m|o|d|e|l", "mask [encoded]"),
        ("mask 74 69 6c 64 61", "mask [encoded]"),
        (r"mask \x6d\x6f", "mask [encoded]"),
        ("mask 74696c6461", "mask [hex]"),
        ("mask 0xA000001", "mask [hex]"),
        ("offset [1, 2, 3, 4, 5, 6, 7, 8, 9]", "offset [9 integers]"),
    ],
)
def test_replaces(text, shown):
    assert messages().clean(text) == shown


def test_single_letters_of_a_program_are_variables():
    assert messages().clean("B, H, L, D, K = x.shape", source=True) == "B, H, L, D, K = x.shape"
    assert messages().clean("K/V (f16) q, k, v") == "K/V (f16) q, k, v"
