from __future__ import annotations

import io

import pytest

from mlxdiag.traces.importers.text import clean, lines_of


@pytest.mark.parametrize(
    ("line", "cleaned"),
    [
        ("\x1b[2m2026\x1b[0m \x1b[33m WARN\x1b[0m", "2026  WARN"),
        ("[2m2026[0m [33m WARN[0m", "2026  WARN"),
        ("\x1b]0;title\x07text", "text"),
        ("progress 1\rprogress 2\r\n".rstrip("\n"), "progress 2"),
        ("> > quoted", "quoted"),
        ("server-1  | text", "text"),
        ("slot update_slots: id  1 | task 7 | text", "slot update_slots: id  1 | task 7 | text"),
        ("a\x00b\x07c\td", "abc\td"),
        ("shape [12m]", "shape [12m]"),
    ],
)
def test_lines_are_cleaned(line, cleaned):
    assert clean(line) == cleaned


@pytest.mark.parametrize(
    "data",
    [
        "eins\nzwei ü".encode(),
        b"\xef\xbb\xbf" + "eins\nzwei ü".encode(),
        b"\xff\xfe" + "eins\nzwei ü".encode("utf-16-le"),
        b"\xfe\xff" + "eins\nzwei ü".encode("utf-16-be"),
        "eins\r\nzwei ü\r\n".encode(),
    ],
)
def test_encodings_and_line_breaks(data):
    assert list(lines_of(io.BytesIO(data))) == ["eins", "zwei ü"]


def test_bytes_that_are_no_text_do_not_end_the_reading():
    assert list(lines_of(io.BytesIO(b"a\n\xff\xc3\nb\n")))[2] == "b"


def test_an_empty_log_has_no_lines():
    assert list(lines_of(io.BytesIO(b""))) == []
