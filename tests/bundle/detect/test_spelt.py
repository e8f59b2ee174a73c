from __future__ import annotations

import pytest

from mlxdiag.bundle.detect.spelt import private


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("t.i.l.d.a", "a text that is spelt or escaped"),
        ("model%20is", "a text that is spelt or escaped"),
        ("74696c6461", "a text that is spelt or escaped"),
        ("74 69 6c 64 61 20", "a text that is spelt or escaped"),
        ("0xA000001", "an address"),
        ("192-168-1-7", "an address"),
        ("1.2.3+deadbeefcafe", "an encoded or random text"),
        ("Bearer model", "an authorization"),
        ("gpu-server", "a host name"),
        ("nas:8080", "a host name"),
        ("cache01", "a host name"),
        ("loaded user/model", "a path"),
    ],
)
def test_finds(line, kind):
    assert kind in set(private(line))


@pytest.mark.parametrize(
    "line",
    [
        "llama-server",
        "localhost:8080",
        "step:1024",
        "token/s",
        "commit d78bf58",
        "Bearer token",
        "B, L, D",
        "[path]/cache.py:118",
    ],
)
def test_lets_pass(line):
    assert list(private(line)) == []


def test_a_hash_s_label_is_no_numbered_machine():
    assert list(private("key=hash:eceac067 hit")) == []
    assert list(private("key eceac067 hit")) == ["a host name"]
