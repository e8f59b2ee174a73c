# ruff: noqa: E501  a line of data is as long as it is
from __future__ import annotations

import pytest

from mlxdiag.bundle.redact.ledger import Ledger
from mlxdiag.bundle.redact.vouched import is_measure
from tests.bundle.cleaning import messages


@pytest.mark.parametrize(
    "text",
    [
        "offset=2048", "n_past = 512", "step 5", "chunk 768 at offset 768", "#token: 9120", "cache_tokens.size() = 3050",
        "Prompt processing progress: 2048/3120", "len 1535->1024", "chunk 0..512", "16 tokens", "98.200 tokens-per-sec",
        "12884901888 bytes", "31%", "keys (1, 8, 671, 256)", "bfloat16 [2560, 10240]", "Shapes (300,128) and (1,64,300,300)",
        "offset=[1167, 1055, 527, 112]", "mlx 0.32.4", "cache.py:118", "line 1188", "http://localhost:8080/v1",
        "tensor a (160)", "rope_theta=1000000.0", "W=512", "exit code 134", "0.30000000000000004", "1e-6",
    ],
)  # fmt: skip
def test_what_vouches_for_a_number_keeps_it(text):
    assert messages().clean(text) == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("the number 4821", "the number [n]"),
        ("offset 9906 1917 374", "offset [3 integers]"),
        ("offset=9906->1917->374", "offset=[n]->[n]->[n]"),
        ("keys [9906, 1917, 374, 264]", "keys [[4 integers]]"),
        ("x=[9906, 1917]", "x=[[n], [n]]"),
        ("step=9906 step=1917 step=374", "step=[n] step=[n] step=[n]"),
        ("total: 48213377", "total: [n]"),
        ("mlx 9906.1917.374", "mlx [n]"),
        ("99.06 19.17 37.4", "[3 integers]"),
        ("1 2 3 4 5", "[5 integers]"),
        ("nas:8080", "[n]"),
        ("seq-491715", "seq-[n]"),
        ("cache 38.7223", "cache [n]"),
    ],
)
def test_every_other_number_goes(text, shown):
    assert messages().clean(text) == shown


def test_numbers_that_go_are_counted_and_not_looked_for_again():
    ledger = Ledger()
    messages(ledger=ledger).clean("cache 482113377 and 4821")
    assert ledger.count("integer") == 2
    assert ledger.originals == set()


def test_in_program_text_no_list_is_a_shape():
    assert messages().clean("keys = f([64, 128])", source=True) == "keys = f([[n], [n]])"
    assert messages().clean("step=256", source=True) == "step=256"


@pytest.mark.parametrize(
    ("word", "is_one"), [("12.4GB", True), ("31%", True), ("9906q", False), ("38.72N", False)]
)
def test_a_measure_is_a_number_with_a_known_unit(word, is_one):
    assert is_measure(word) == is_one
