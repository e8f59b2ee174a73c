from __future__ import annotations

import pytest

from mlxdiag.bundle.detect.prose import private


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("tell me a story", "text that people write"),
        ("bitte nicht", "text that people write"),
        ("doesn't it", "text that people write"),
        ("signed by Mathilde", "a given name"),
        ("请总结这份合同", "letters of another script"),
        ('said "The run of it was good enough."', "a quoted sentence"),
        ("cache window server model", "a line of nothing but words"),
    ],
)
def test_finds(line, kind):
    assert kind in set(private(line))


@pytest.mark.parametrize(
    "line",
    [
        "slot update_slots: id 1 | task 7 | kv cache rm [0, end)",
        "[12 integers] of [message left out: 5 words]",
        "lr 0.1, why 1",
    ],
)
def test_lets_pass(line):
    assert list(private(line)) == []


def test_what_python_cannot_do_is_no_speech_and_what_people_do_not_is():
    assert list(private("'utf-8' codec can't decode byte")) == []
    assert list(private("shape doesn't match")) == []
    assert "text that people write" in list(private("the model doesn't like it"))
