from __future__ import annotations

from mlxdiag.bundle.redact import lines
from mlxdiag.bundle.redact.lines import Lines, people
from tests.bundle.cleaning import cleaned, messages


def test_a_line_that_no_format_explains_stays_out_even_where_every_word_is_known():
    assert cleaned("write the cache of the server") == "     1| [line left out]"


def test_numbers_are_the_logs_own_and_gaps_are_told():
    log = "INFO: offset 1\nfirst text\nsecond text\nINFO: offset 4"
    assert cleaned(log).split("\n") == [
        "     1| INFO: offset 1",
        "     2| [lines 2 to 3 left out]",
        "     4| INFO: offset 4",
    ]


def test_the_source_of_a_library_stays_and_that_of_a_program_does_not():
    library = (
        '  File "/Users/jane/x/site-packages/mlx_lm/models/cache.py", line 3, in merge\n    keys = values'
    )
    program = '  File "/Users/jane/main.py", line 3, in main\n    keys = values'
    assert cleaned(library).endswith("    keys = values")
    assert cleaned(program).endswith("    [source line]")


def test_a_key_block_goes_whole():
    inside = "256\nINFO: offset 1"
    block = f"INFO: a\n-----BEGIN EC PRIVATE KEY-----\n{inside}\n-----END EC PRIVATE KEY-----\nINFO: offset 2"
    assert cleaned(block).split("\n") == [
        "     1| INFO: a",
        "     2| [lines 2 to 5 left out]",
        "     6| INFO: offset 2",
    ]


def test_the_names_of_paths_are_learnt():
    assert people(["open /Users/zorblax/x", "/Volumes/Hendricks Merger/y", r"C:\Users\kestrel\z"]) == {
        "zorblax", "Hendricks Merger", "kestrel",
    }  # fmt: skip
    assert "max" not in cleaned("INFO: max of /home/max/x")


def test_of_a_long_log_the_middle_stays_out(monkeypatch):
    monkeypatch.setattr(lines, "FIRST_LINES", 2)
    monkeypatch.setattr(lines, "LAST_LINES", 2)
    shown = list(Lines(messages()).clean(f"INFO: offset {i}" for i in range(1, 8)))
    assert shown == [
        "     1| INFO: offset 1",
        "     2| INFO: offset 2",
        "     3| [lines 3 to 5 left out]",
        "     6| INFO: offset 6",
        "     7| INFO: offset 7",
    ]


def test_a_line_of_endless_length_stays_out():
    assert cleaned("INFO: " + "cache " * 4000) == "     1| [line left out]"


def test_colours_and_tabs_hide_nothing():
    assert cleaned("\x1b[31mERROR\x1b[0m: peer 10.3.\x1b[1m7.21") == "     1| ERROR: peer [address]"
