from __future__ import annotations

import json

import pytest

from mlxdiag.errors import UnreadableError
from mlxdiag.traces.encode import entry_line
from tests.traces.importers.reading import codes, imported, steps_of


def event(scheduled, new=(), **more):
    listed = [
        {
            "req_id": name,
            "num_computed_tokens": computed,
            "prompt_len": length,
            "prompt_token_ids": [71717, 72727],
        }
        for name, computed, length in new
    ]
    return {
        "type": "scheduler_output",
        "payload": {"num_scheduled_tokens": scheduled, "scheduled_new_requests": listed, **more},
    }


SCHEDULE = [
    event({"r1": 512}, new=[("r1", 0, 600)]),
    event({"r1": 88, "r2": 16}, new=[("r2", 64, 80)]),
    event({"r1": 1, "r2": 1}),
]


def told(text):
    steps = steps_of(text)
    return [[(step["phase"], row["offset"], row["tokens"]) for row in step["rows"]] for step in steps]


EXPECTED = [
    [("prefill", 0, 512)],
    [("chunk", 512, 88)],
    [("chunk", 64, 16)],
    [("decode", 600, 1), ("decode", 80, 1)],
]
"""Rows of several tokens stand alone: side by side they would be padded to one another."""


@pytest.mark.parametrize(
    "text",
    [
        json.dumps({"events": SCHEDULE}),
        json.dumps({"events": SCHEDULE}, indent=1),
        json.dumps(SCHEDULE),
        "\n".join(json.dumps(one) for one in SCHEDULE),
    ],
)
def test_steps_follow_one_another_in_every_layout(text):
    assert told(text) == EXPECTED
    assert codes(text) == []


def test_a_request_the_dump_does_not_introduce_has_no_offset():
    (step,) = steps_of(json.dumps(event({"r9": 4})))
    assert "offset" not in step["rows"][0]


def test_where_a_request_stands_is_believed_over_the_count():
    cached = [{"req_id": "r1", "num_computed_tokens": 500}]
    text = json.dumps([SCHEDULE[0], event({"r1": 88}, scheduled_cached_requests=cached)])
    assert told(text)[1] == [("chunk", 500, 88)]
    assert ("MD203", "error") in codes(text)


def test_a_finished_name_begins_again():
    text = json.dumps([SCHEDULE[0], event({}, finished_request_ids=["r1"]), event({"r1": 4})])
    assert len(steps_of(text)) == 2


def test_ids_and_names_stay_out():
    found = imported(json.dumps({"events": SCHEDULE}))
    written = b"".join(entry_line(entry) for entry in found.trace.entries)
    assert b"71717" not in written
    assert b'"r1"' not in written


def test_rows_that_were_not_fed_are_left_out():
    text = json.dumps(event({"r1": 0, "r2": 9}, new=[("r1", 0, 9), ("r2", 0, 9)]))
    assert told(text) == [[("prefill", 0, 9)]]


@pytest.mark.parametrize(
    "value",
    [
        {"events": [{"type": "click", "payload": {"x": 1}}]},
        {"events": []},
        {"type": "scheduler_output", "payload": None},
        {"type": "scheduler_output", "payload": {"num_scheduled_tokens": {"a": "many"}}},
    ],
)
def test_other_events_make_no_trace(value):
    with pytest.raises(UnreadableError):
        imported(json.dumps(value))
