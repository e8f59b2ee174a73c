# ruff: noqa: E501  a line of data is as long as it is
from __future__ import annotations

import pytest

from mlxdiag.bundle.detect.tokens_of import private


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("peer=10.3.7.21", "an address"),
        ("from ::ffff:c0a8:112c to", "an address"),
        ("at [2001:db8::17]:8080", "an address"),
        ("see https://user:pw@github.com/ml-explore/mlx", "a web address"),
        ("to kestrel.lan:8080", "a host name"),
        ("C:\\models", "a path"),
        ("key=Q9w8e7R6t5y4U3i2o1P0", "an encoded or random text"),
        ("4111 1111 1111 1111", "a number too long for a length"),
        ("+49 170 5550 1234", "a number too long for a length"),
        ("data:image/png;base64,AAAA", "an attachment"),
        ("550e8400-e29b-41d4-a716-446655440000", "the id of a request"),
    ],
)
def test_finds(line, kind):
    assert kind in set(private(line))


@pytest.mark.parametrize(
    "line",
    [
        "2026-09-14T08:00:00.000-03:00", "offset 2048 2201 2208 671 160 153 512", "shape [1, 8, 32, 256]", "0.32.2.dev1+d78bf58",
        "https://github.com/ml-explore/mlx-lm/issues", "http://localhost:8080/v1", "127.0.0.1:8080", "gemma-3-12b-it-4bit",
        "language_model.model.layers.0.self_attn.q_proj.weight", "0.30000000000000004", "std::invalid_argument", "token/s",
        "[path]/mlx_lm/models/cache.py", "08:00:01,100", "chunk 0..512", "x[::2]", "2048/3120", "mask=(298,128)",
        "- Environment variables: HF_HUB_OFFLINE=1, TRANSFORMERS_OFFLINE=1",
    ],
)  # fmt: skip
def test_lets_pass(line):
    assert list(private(line)) == []
