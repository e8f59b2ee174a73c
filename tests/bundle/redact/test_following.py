from __future__ import annotations

import pytest

from mlxdiag.bundle.redact.following import MOST_BLANKS, MOST_UNCLOSED, Following, prepared, unclosed
from mlxdiag.bundle.redact.opened import RULER

TIME = "2026-08-30 11:02:1{},553 - INFO - {}"


def kinds(*lines: str, never_closed: tuple[int, ...] = ()) -> list[str]:
    following = Following(never_closed)
    return [following.feed(line) for line in lines]


def test_colours_tabs_and_rows_of_blanks_go():
    assert prepared("\x1b[31mERROR\x1b[0m:\tx\r\n") == "ERROR:    x"
    assert prepared(f"a{' ' * 5000}b") == f"a{' ' * MOST_BLANKS}b"


def test_what_is_closed_again_is_no_text_that_was_cut_off():
    assert unclosed(['INFO: x="hi', "INFO: mask", 'end"', "INFO: offset 4"]) == frozenset()


def test_what_is_never_closed_is_found_by_its_line():
    assert unclosed([TIME.format(1, "a"), TIME.format(2, "(cut off"), TIME.format(3, "b")]) == {2}


def test_behind_a_text_that_was_cut_off_the_log_goes_on_with_the_next_record_of_its_kind():
    lines = TIME.format(1, "(cut"), "INFO: mask", TIME.format(2, "offset 4"), "INFO: offset 5"
    assert kinds(*lines) == ["record", "open", "open", "open"]
    assert kinds(*lines, never_closed=(1,)) == ["record", "open", "record", "record"]


def test_the_search_for_such_texts_ends():
    found = unclosed([TIME.format(n % 10, "(cut off") for n in range(MOST_UNCLOSED * 3)])
    assert len(found) == MOST_UNCLOSED


def test_an_answer_that_a_fault_ends_ends_there_and_nowhere_else():
    lines = RULER, "INFO: mask", "Traceback (most recent call last):", "ValueError: offset 4"
    assert kinds(*lines, never_closed=(1,)) == ["record", "open", "record", "record"]
    assert kinds("INFO: (", *lines[1:], never_closed=(1,)) == ["record", "open", "open", "open"]


def test_a_whole_value_of_json_goes_on_nowhere():
    assert kinds('{"level": "info", "message": "prompt: hi there"}', "INFO: offset 4") == ["record", "record"]


def test_a_row_of_a_drawn_traceback_opens_nothing():
    assert kinds("│ ❱ 12 │   print(generate(model, │", "INFO: offset 4") == ["record", "record"]


def test_an_environment_s_user_is_no_turn_of_a_conversation():
    assert kinds("USER=kestrel", "INFO: offset 4") == ["record", "record"]
    assert kinds("user=hello there", "INFO: offset 4") == ["record", "open"]


@pytest.mark.parametrize(("second", "kind"), [("44", "open"), ("45", "record")])
def test_a_text_in_the_journal_ends_with_its_second(second, kind):
    line = "Nov 02 09:12:{} x ollama[1]: {}"
    assert kinds(line.format("44", "prompt: hi"), line.format(second, "offset 4"))[1] == kind


def test_a_traceback_is_followed_behind_a_prefix_too():
    assert kinds(
        '[rank0]:   File "/x/y.py", line 3, in main', "[rank0]:     return x", "[rank0]: ValueError: y"
    ) == ["frame", "source", "record"]
    assert kinds('  File "/x/y.py", line 3 in main') == ["frame"]
