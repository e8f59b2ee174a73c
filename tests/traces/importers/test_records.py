from __future__ import annotations

import pytest

from mlxdiag.traces.importers.records import records


def told(*lines):
    return [(record.text, record.value) for record in records(lines)]


def test_a_line_is_a_record():
    assert told("one", "", "two") == [("one", None), ("two", None)]


def test_a_wrapped_entry_is_one_record():
    lines = ("WARN trim_mask_to_keys: mask shorter, discarding", "caller mask mask_len=1", "key_len=2")
    assert told(*lines) == [(" ".join(lines), None)]


def test_a_new_head_ends_a_wrapped_entry():
    first = "2026-01-01T00:00:00Z WARN trim_mask_to_keys: mask_len=1"
    second = "2026-01-01T00:00:01Z INFO other"
    assert told(first, second) == [(first, None), (second, None)]


def test_fields_that_were_told_already_begin_another_entry():
    assert told("mask_len=1 key_len=2", "mask_len=1 key_len=3") == [
        ("mask_len=1 key_len=2", None),
        ("mask_len=1 key_len=3", None),
    ]


def test_prose_after_a_log_line_is_not_taken_in():
    assert told("mask_len=1 key_len=2", "and then it broke")[1] == ("and then it broke", None)


def test_a_dump_goes_on_until_its_brackets_close():
    assert told("SchedulerOutput(a=f(", "b)", ")", "after") == [
        ("SchedulerOutput(a=f( b) )", None),
        ("after", None),
    ]


@pytest.mark.parametrize(
    "lines",
    [
        ('{"a": [1, 2]}',),
        ("{", '  "a": [', "    1,", "    2", "  ]", "}"),
        ('{"a":', "[1,2]}"),
        ("  {", '"a": [1, 2]', "}"),
    ],
)
def test_json_is_a_value_over_any_number_of_lines(lines):
    assert told(*lines) == [("", {"a": [1, 2]})]


def test_json_that_never_ends_is_text_and_hides_nothing_after_it():
    found = told('{"a": [1,', '"b"', "2026-01-01 00:00:00,000 - INFO - x", '{"c": 1}')
    assert ("2026-01-01 00:00:00,000 - INFO - x", None) in found
    assert ("", {"c": 1}) in found


def test_a_line_cut_short_does_not_take_the_next_ones_along():
    assert told('{"a": 1, "b', '{"c": 1}', '{"d": 1}')[1:] == [("", {"c": 1}), ("", {"d": 1})]


def test_a_body_behind_the_head_of_a_log_line():
    found = told("2026-08-30 11:02:17,553 - DEBUG - Outgoing Response: {", '\t"a": 1', "}")
    assert found[-1] == ("", {"a": 1})


def test_a_body_at_the_end_of_a_log_line():
    head = "2026-08-30 11:02:17,553 - DEBUG - Outgoing Response"
    assert told(f'{head}: {{"a": 1}}') == [(head, None), ("", {"a": 1})]
    assert told(f'{head}: {{"a": 1}} and more}}') == [(f'{head}: {{"a": 1}} and more}}', None)]


def test_an_event_is_its_value():
    (record,) = records(['data: {"a": 1}'])
    assert (record.value, record.prefix) == ({"a": 1}, "data")
    assert told("data: [DONE]") == [("data: [DONE]", None)]


def test_nan_is_read_as_python_writes_it():
    ((_, value),) = told('{"a": NaN}')
    assert value["a"] != value["a"]


def test_brackets_in_strings_open_nothing():
    assert told("{", '  "a": "}{[",', '  "b": 1', "}") == [("", {"a": "}{[", "b": 1})]
