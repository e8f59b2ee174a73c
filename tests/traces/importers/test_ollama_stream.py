from __future__ import annotations

import json

import pytest

from mlxdiag.errors import UnreadableError
from tests.traces.importers.reading import codes, imported, steps_of


def line(content, done=False, reason=None, **more):
    value = {
        "model": "m",
        "created_at": "2026-09-14T08:00:00Z",
        "message": {"role": "assistant", "content": content},
        "done": done,
    }
    return json.dumps({**value, **({"done_reason": reason} if reason else {}), **more}) + "\n"


def rows(log):
    return [step["rows"][0] for step in steps_of(log)]


def test_a_chat_stream_that_collapses():
    log = "".join(line(f"<unused{i}>") for i in (49, 3, 49, 3)) + line("", True, "length")
    assert "".join(row.get("classes", "") for row in rows(log)) == "rrrr"
    assert rows(log)[-1]["finish"] == "length"
    assert ("MD601", "error") in codes(log)


def test_a_generate_stream():
    log = "".join(json.dumps({"model": "m", "response": text, "done": False}) + "\n" for text in ("a", " b"))
    assert [row["ids"] for row in rows(log)] == [[0], [1]]


def test_an_answer_ends_with_done():
    log = line("a") + line("", True, "stop") + line("b") + line("", True, "stop")
    assert [row["seq"] for row in rows(log)] == ["answer-1", "answer-1", "answer-2", "answer-2"]


def test_a_whole_answer_tells_its_prompts_length():
    log = line("one two three", True, "stop", prompt_eval_count=12, eval_count=3)
    prompt, answer = steps_of(log)
    assert prompt["rows"][0] == {"seq": "answer-1", "tokens": 12, "total": 12}
    assert answer["rows"][0]["classes"] == "ttt"


def test_logprobs_keep_null_apart():
    log = line("a", logprobs=[{"token": "a", "logprob": None}]) + line(
        "b", logprobs=[{"token": "b", "logprob": -1.5}]
    )
    assert [row["logprob"] for row in rows(log)] == [None, -1.5]
    assert codes(log) == [("MD401", "error")]


def test_thinking_is_part_of_what_was_generated():
    value = {
        "model": "m",
        "message": {"role": "assistant", "content": "", "thinking": "<pad>"},
        "done": False,
    }
    assert rows((json.dumps(value) + "\n") * 4)[0]["classes"] == "p"


def test_ordinary_answers_have_no_finding():
    log = "".join(line(f" word{i}") for i in range(40)) + line("", True, "stop")
    assert codes(log) == []


@pytest.mark.parametrize(
    "value",
    [
        {"status": "pulling manifest", "done": False},
        {"model": "m", "done": "yes", "response": "x"},
        {"todo": "buy milk", "done": True},
    ],
)
def test_other_json_with_a_done_makes_no_trace(value):
    with pytest.raises(UnreadableError):
        imported(json.dumps(value))
