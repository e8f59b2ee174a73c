from __future__ import annotations

import pytest

from mlxdiag.bundle.redact.wordlists import listed, section


def test_a_list_holds_no_comments():
    assert "gemma" in listed("families.txt")
    assert not any(word.startswith("#") for word in listed("families.txt"))


def test_sections_are_apart():
    assert "offset" in section("counters.txt", "keys")
    assert "offset" not in section("counters.txt", "never")
    with pytest.raises(KeyError):
        section("counters.txt", "nothing")
