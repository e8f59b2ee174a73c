"""Null, "nan" and absent are three things, and a prompt's null is not an answer's."""

from __future__ import annotations

import json

import pytest

from mlxdiag.errors import UnreadableError
from tests.traces.importers.reading import codes, gemma4, imported, steps_of


def chunk(content, ident="c1", index=0, finish=None, **more):
    choice = {"index": index, "delta": {"content": content}, "finish_reason": finish, **more}
    return "data: " + json.dumps({"id": ident, "object": "chat.completion.chunk", "choices": [choice]}) + "\n"


def whole(logprobs=None, content="hi", finish="stop", **more):
    choice = {"index": 0, "message": {"role": "assistant", "content": content}, "finish_reason": finish}
    if logprobs is not None:
        choice["logprobs"] = logprobs
    return {"id": "x", "object": "chat.completion", "choices": [choice], **more}


def chosen(logprob):
    return {"content": [{"token": "hi", "logprob": logprob, "top_logprobs": []}]}


def rows(*logs, **options):
    return [step["rows"][0] for step in steps_of(*logs, **options)]


def test_a_stream_is_classes_and_labels():
    log = (
        "".join(chunk(f"<unused{i}>") for i in (2115, 2102, 2120, 2115))
        + chunk("", finish="length")
        + "data: [DONE]\n"
    )
    found = rows(log)
    assert "".join(row.get("classes", "") for row in found) == "rrrr"
    assert [row["ids"][0] for row in found[:4]] == [0, 1, 2, 0]
    assert found[-1]["finish"] == "length"
    assert ("MD601", "error") in codes(log)


def test_pads_and_control_and_end():
    log = (
        "".join(chunk("<pad>") for _ in range(4))
        + chunk("<|channel|>")
        + chunk("<end_of_turn>", finish="stop")
    )
    assert "".join(row["classes"] for row in rows(log)) == "ppppce"


def test_several_special_tokens_in_one_chunk():
    assert rows(chunk("so <unused1><unused2> it"))[0]["classes"] == "trrt"


def test_answers_are_told_apart():
    log = chunk("a") + chunk("b", ident="c2") + chunk("c", index=1) + chunk("d")
    assert [row["seq"] for row in rows(log)] == ["answer-1", "answer-2", "answer-3", "answer-1"]


@pytest.mark.parametrize(
    ("told", "expected", "found"),
    [
        (chosen(None), {"logprob": None}, [("MD401", "error")]),
        (chosen(float("nan")), {"logprob": "nan"}, [("MD401", "error")]),
        (chosen("NaN"), {"logprob": "nan"}, [("MD401", "error")]),
        (chosen(-0.25), {"logprob": -0.25}, []),
        ({"content": [{"token": "hi"}]}, {}, []),
        (None, {}, []),
    ],
)
def test_a_chosen_tokens_logprob(told, expected, found):
    log = json.dumps(whole(told))
    (row,) = rows(log)
    assert {key: row[key] for key in row if key == "logprob"} == expected
    assert codes(log) == found


def test_an_impossible_alternative_is_legal():
    told = {
        "content": [
            {"token": "hi", "logprob": -0.1, "top_logprobs": [{"token": "x", "logprob": float("-inf")}]}
        ]
    }
    assert codes(json.dumps(whole(told))) == []


def legacy(logprobs, usage=None):
    choice = {
        "index": 0,
        "text": "a b c",
        "finish_reason": "length",
        "logprobs": {"tokens": ["a", "b", "c"], "token_logprobs": logprobs},
    }
    return json.dumps({"id": "x", "choices": [choice], **({"usage": usage} if usage else {})})


def test_the_null_of_an_echoed_prompt_is_the_prompts():
    log = legacy([None, -0.5, -0.25], {"prompt_tokens": 2, "completion_tokens": 1})
    prompt, answer = steps_of(log)
    assert (prompt["phase"], prompt["rows"][0]["tokens"], prompt["rows"][0]["logprob"]) == (
        "prefill",
        2,
        None,
    )
    assert answer["rows"][0]["logprob"] == -0.25
    assert codes(log) == []


def test_the_null_of_a_chosen_token_is_not():
    assert codes(legacy([-0.5, None, -0.25], {"prompt_tokens": 9, "completion_tokens": 3})) == [
        ("MD401", "error")
    ]
    assert codes(legacy([None, -0.5, -0.25], {"prompt_tokens": 9, "completion_tokens": 3})) == [
        ("MD401", "error")
    ]


def test_a_first_null_of_nobody_knows_whose_token_is_not_held_against_it():
    first = rows(legacy([None, -0.5, -0.25]))[0]
    assert "logprob" not in first
    assert codes(legacy([None, -0.5, -0.25])) == []


def test_a_pretty_printed_answer_with_words():
    log = json.dumps(whole(content="one two one two"), indent=2)
    (row,) = rows(log)
    assert (row["classes"], row["ids"], row["finish"]) == ("tttt", [0, 1, 0, 1], "eos")


def test_a_list_of_chunks():
    chunks = [json.loads(chunk(text)[6:]) for text in ("a", "<pad>")]
    assert "".join(row["classes"] for row in rows(json.dumps(chunks))) == "tp"


def test_one_reserved_token_before_ordinary_text_is_no_collapse():
    log = chunk("<unused94>") + "".join(chunk(f" word{i}") for i in range(30)) + chunk("", finish="stop")
    assert codes(log) == []


def test_requests_hold_nothing_for_a_trace():
    body = {"model": "m", "messages": [{"role": "user", "content": "<pad><pad><pad><pad>"}]}
    with pytest.raises(UnreadableError, match="openai"):
        imported(json.dumps(body))


def test_with_a_config_the_classes_are_the_same():
    assert rows(chunk("<pad>"), model=gemma4(512))[0]["classes"] == "p"
