from __future__ import annotations

import json

import pytest

from mlxdiag.errors import UnreadableError
from tests.traces.importers.reading import codes, gemma4, imported, steps_of


def token(ident, text="a", logprob=-0.5, special=False):
    return {"id": ident, "text": text, "logprob": logprob, "special": special}


def whole(tokens, prefill=(), finish="length"):
    details = {
        "finish_reason": finish,
        "generated_tokens": len(tokens),
        "prefill": list(prefill),
        "tokens": tokens,
    }
    return json.dumps({"generated_text": "", "details": details})


def event(one, text=None, finish=None):
    value = {
        "index": 1,
        "token": one,
        "generated_text": text,
        "details": {"finish_reason": finish} if finish else None,
    }
    return "data:" + json.dumps(value) + "\n"


def rows(log, **options):
    return [step["rows"][0] for step in steps_of(log, **options)]


def test_the_null_of_the_prompts_first_token_is_legal():
    log = whole([token(5)], prefill=[token(2, "<bos>", None), token(9, "x", -1.0)])
    prompt, answer = steps_of(log)
    assert (prompt["phase"], prompt["rows"][0]["tokens"], prompt["rows"][0]["logprob"]) == (
        "prefill",
        2,
        None,
    )
    assert answer["rows"][0]["logprob"] == -0.5
    assert codes(log) == []


def test_the_null_of_a_chosen_token_is_not():
    assert codes(whole([token(5), token(6, logprob=None)])) == [("MD401", "error")]


def test_a_chosen_token_without_a_logprob_is_not_observed():
    bare = {"id": 5, "text": "a", "special": False}
    assert "logprob" not in rows(whole([bare]))[0]
    assert codes(whole([bare])) == []


def test_special_tokens_are_classed():
    log = whole(
        [
            token(0, "<pad>", special=True),
            token(7, "<unused9>", special=True),
            token(106, "<end_of_turn>", special=True),
            token(3, "<odd>", special=True),
        ]
    )
    assert "".join(row["classes"] for row in rows(log)) == "prec"


def test_ids_without_texts_are_classed_by_the_config():
    log = whole([{"id": 258014}, {"id": 0}, {"id": 4000}])
    assert rows(log)[0]["classes"] == "t0t"
    assert rows(log, model=gemma4(512))[0]["classes"][0] == "r"


def test_a_stream_of_events():
    log = (
        event(token(5)) + event(token(6)) + event(token(5), text="aba", finish="eos_token") + event(token(5))
    )
    found = rows(log)
    assert [row["ids"][0] for row in found] == [0, 1, 0, 0]
    assert [row["seq"] for row in found] == ["answer-1"] * 3 + ["answer-2"]
    assert found[2]["finish"] == "eos"


def test_an_ordinary_answer_has_no_finding():
    assert codes(whole([token(i, f"w{i}") for i in range(40)], finish="eos_token")) == []


@pytest.mark.parametrize(
    "value",
    [
        {"generated_text": "hello"},
        {"details": "none", "generated_text": "x"},
        {"token": "abc", "user": "me"},
    ],
)
def test_json_that_looks_alike_makes_no_trace(value):
    with pytest.raises(UnreadableError):
        imported(json.dumps(value))
