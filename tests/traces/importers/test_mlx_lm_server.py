from __future__ import annotations

import json

import pytest

from mlxdiag.errors import UnreadableError
from mlxdiag.traces.encode import entry_line
from tests.traces.importers.reading import codes, imported, steps_of


def log(*messages, level="INFO"):
    return "\n".join(
        f"2026-08-30 11:02:17,{i:03d} - {level} - {message}" for i, message in enumerate(messages)
    )


def body(name, value):
    """As the server prints it at DEBUG: over many lines, behind the head of the first."""
    return log(f"{name}: ", level="DEBUG") + json.dumps(value, indent="\t")


def progress(*done, total):
    return log(*(f"Prompt processing progress: {one}/{total}" for one in done))


def fed(text):
    return [(step["rows"][0]["seq"], step["rows"][0]["tokens"], step["phase"]) for step in steps_of(text)]


def test_pieces_are_what_lies_between_two_lines():
    assert fed(progress(0, 2048, 3119, 3120, total=3120)) == [
        ("req-1", 2048, "prefill"),
        ("req-1", 1071, "chunk"),
        ("req-1", 1, "chunk"),
    ]


def test_a_log_that_begins_in_the_middle():
    assert fed(progress(2048, 3120, total=3120))[0] == ("req-1", 2048, "prefill")


def test_prompts_that_run_together_are_told_apart_by_their_length():
    text = log(*(f"Prompt processing progress: {a}" for a in ("512/900", "512/1400", "899/900", "1024/1400")))
    assert fed(text) == [
        ("req-1", 512, "prefill"),
        ("req-2", 512, "prefill"),
        ("req-1", 387, "chunk"),
        ("req-2", 512, "chunk"),
    ]


def test_the_same_prompt_again_is_another_request():
    assert [seq for seq, _, _ in fed(progress(400, 0, 400, total=500))] == ["req-1", "req-2"]


def test_a_healthy_server_has_no_finding():
    assert (
        codes(progress(0, 2048, 3119, 3120, total=3120) + "\n" + log("Prompt Cache: 3 sequences, 0.41 GB"))
        == []
    )


def test_bodies_stay_out():
    request = {"model": "m", "messages": [{"role": "user", "content": "<pad><pad><pad><pad> my secret"}]}
    found = imported(body("Incoming Request Body", request) + "\n" + progress(0, 9, total=9))
    assert found.taken == {"mlx-lm-server": 1}
    assert b"secret" not in b"".join(entry_line(entry) for entry in found.trace.entries)


def test_an_answer_that_debug_prints_is_seen_as_classes():
    message = {"role": "assistant", "content": "<pad><pad><pad><pad><pad>"}
    choice = {"index": 0, "finish_reason": "length", "message": message}
    text = body("Outgoing Response", {"id": "x", "choices": [choice]})
    (step,) = steps_of(text)
    assert step["rows"][0]["classes"] == "ppppp"
    assert ("MD602", "error") in codes(text)


@pytest.mark.parametrize(
    "text",
    [
        log("Starting httpd at 127.0.0.1 on port 8080..."),
        log("Prompt Cache: 3 sequences, 0.41 GB"),
        progress(0, total=3120),
    ],
)
def test_lines_without_progress_make_no_trace(text):
    with pytest.raises(UnreadableError):
        imported(text)
