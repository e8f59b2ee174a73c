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


def test_nothing_survives_inside_of_what_a_line_opened():
    log = 'INFO: prompt="hi\nINFO: mask 12\nend"\nINFO: offset 4'
    assert cleaned(log).split("\n") == [
        "     1| INFO: prompt=[text]",
        "     2| [lines 2 to 3 left out]",
        "     4| INFO: offset 4",
    ]


def test_what_is_never_closed_is_told():
    assert cleaned("INFO: ids=[\nINFO: offset 12\nINFO: offset 13").split("\n")[-1] == (
        "     2| [lines 2 to 3 left out: what line 1 opens is not closed]"
    )


def test_what_is_opened_in_the_middle_of_a_long_log_counts(monkeypatch):
    monkeypatch.setattr(lines, "FIRST_LINES", 1)
    monkeypatch.setattr(lines, "LAST_LINES", 2)
    log = ["INFO: offset 1", 'INFO: x="hi', "INFO: mask 12", 'INFO: mask 13"', "INFO: offset 2"]
    assert list(Lines(messages()).clean(log)) == [
        "     1| INFO: offset 1",
        "     2| [lines 2 to 4 left out]",
        "     5| INFO: offset 2",
    ]


def test_a_text_without_quotes_goes_on_to_the_next_record_with_such_a_time():
    time = "2026-08-30 11:02:1{},553 - INFO - {}"
    log = "\n".join((time.format(7, "prompt: hi"), "INFO: mask 12", time.format(8, "offset 4")))
    shown = cleaned(log).split("\n")
    assert shown[1] == "     2| [line left out]"
    assert shown[2].endswith("offset 4")


def test_a_turn_of_a_conversation_goes_on_as_well():
    assert "mask" not in cleaned("<start_of_turn>user\nINFO: mask 12\nINFO: mask 13")


def test_a_traceback_behind_a_prefix_is_one():
    prefix = "(EngineCore_0 pid=4243) ERROR 09-14 08:00:01 [core.py:702] "
    log = (
        f'{prefix}  File "/x/site-packages/vllm/v1/engine/core.py", line 693, in run\n'
        f"{prefix}    output = self.execute(\n{prefix}RuntimeError: shape (1, 2)"
    )
    shown = cleaned(log).split("\n")
    assert shown[1].endswith("[core.py:702]     output = self.execute(")
    assert shown[2].endswith("RuntimeError: shape (1, 2)")


def test_the_source_line_of_a_warning_opens_nothing():
    log = "/x/site-packages/mlx_lm/server.py:17: UserWarning: offset\n  warnings.warn(\nINFO: offset 12"
    assert cleaned(log).split("\n")[-1] == "     3| INFO: offset 12"


def test_a_container_s_name_is_held_to_the_rules():
    assert cleaned("gpu-server | INFO: offset 4") == "     1| [host] | INFO: offset 4"
