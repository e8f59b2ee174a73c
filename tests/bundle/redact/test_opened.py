# ruff: noqa: E501  a line of data is as long as it is
from __future__ import annotations

import pytest

from mlxdiag.bundle.redact.opened import RULER, Opened, begins_turn


def after(*lines: str) -> bool:
    opened = Opened()
    for line in lines:
        opened.feed(line)
    return opened.open


@pytest.mark.parametrize(
    "line",
    [
        'prompt="hi', "prompt='hi", 'x = """hi', "ids=[9906,", '{"a": 1,', "RequestOutput(id=0,", "`hi", RULER,
        "b'{\"content\": \"hi", "text='it isn't so", 'said "he said "hi" to us',
    ],
)  # fmt: skip
def test_what_is_open_at_the_end_of_a_line(line):
    assert after(line)


@pytest.mark.parametrize(
    "line",
    [
        "kv cache rm [0, end)", "it isn't open, nor is the users' cache", "[=====>    ]", 'say "a" and \'b\'', "x[::2] (a)",
        '{"a": "b\\"c"}', "a 5\" disk", "```", "```python", "(0, 512]", "smile :(", "closes ) ] }",
    ],
)  # fmt: skip
def test_what_is_not(line):
    assert not after(line)


def test_it_is_open_until_it_is_closed():
    assert after('prompt="hi', "INFO: mask", "it's")
    assert not after('prompt="hi', "INFO: mask", 'end"')
    assert after('prompt="he said "hi" to us', 'and "that" too')
    assert not after('prompt="he said "hi" to us', 'end"')
    assert not after("{", '  "a": [', "  1]", "}")
    assert not after(RULER, '"', RULER)


def test_a_turn_begins_where_no_end_follows():
    assert begins_turn("<start_of_turn>user")
    assert begins_turn("user: hi")
    assert not begins_turn("<start_of_turn>user hi<end_of_turn>")
    assert not begins_turn("Prompt: 14 tokens")
