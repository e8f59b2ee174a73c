"""llama.cpp: the guard that prefills again is right; going on without the window's keys is not."""

from __future__ import annotations

import pytest

from mlxdiag.errors import UnreadableError
from tests.traces.importers.reading import codes, imported, report_on, steps_of


def slot(said, ident=1, task=7, head=""):
    return f"{head}slot update_slots: id  {ident} | task {task} | {said}"


PROMPT = slot("new prompt, n_ctx_slot = 8192, n_keep = 0, n_prompt_tokens = 3000")
STATE = slot("n_past = 2900, cache_tokens.size() = 3050, seq_id = 1, pos_min = 2027, n_swa = 1024")
FORCED = slot("forcing full prompt re-processing due to lack of cache data (likely due to SWA, see docs)")
REST = slot("prompt processing progress, n_past = 3000, n_tokens = 100, progress = 1.000000")


def test_the_guard_is_a_refusal_and_the_prompt_begins_again():
    text = "\n".join(
        [
            PROMPT,
            STATE,
            FORCED,
            slot("kv cache rm [0, end)"),
            slot("prompt processing progress, n_past = 2048, n_tokens = 2048, progress = 0.682667"),
            slot("prompt done, n_past = 3000, n_tokens = 952"),
        ]
    )
    adopt, first, second = steps_of(text)
    assert adopt["rows"] == [{"seq": "task-1", "matched": 2900, "entry": 3050, "total": 3000}]
    assert (first["phase"], first["rows"][0]["offset"], first["rows"][0]["tokens"]) == ("prefill", 0, 2048)
    assert (second["rows"][0]["offset"], second["rows"][0]["tokens"]) == (2048, 952)
    assert codes(text) == [("MD905", "info")]


def test_going_on_without_the_windows_oldest_keys_is_found():
    text = "\n".join([PROMPT, STATE, slot("kv cache rm [2900, end)"), REST])
    adopt, chunk = steps_of(text)
    assert adopt["rows"][0] == {
        "seq": "task-1", "matched": 2900, "entry": 3050, "trimmed": 150, "restored": 2900, "total": 3000,
    }  # fmt: skip
    assert chunk["attention"][0]["live_start"] == 2027
    (finding,) = report_on(text).findings
    # From position 2900 a window of 1024 reaches back to 2900 - 1024 + 1.
    assert (finding.code, finding.severity, finding.evidence["needed"]) == ("MD207", "error", 1877)


def test_going_on_with_every_key_of_the_window_is_right():
    text = "\n".join([PROMPT, STATE.replace("2027", "1700"), slot("kv cache rm [2900, end)"), REST])
    assert codes(text) == []


def test_newer_builds_count_tokens_and_name_the_batch():
    head = "0.412.118 I "
    text = "\n".join(
        [
            slot("new prompt, n_ctx_slot = 8192, n_keep = 0, task.n_tokens = 700", head=head),
            slot("n_tokens = 0, memory_seq_rm [0, end)", head=head),
            slot(
                "prompt processing progress, n_tokens = 512, batch.n_tokens = 512, progress = 0.73", head=head
            ),
            slot("prompt done, n_tokens = 700, batch.n_tokens = 188", head=head),
        ]
    )
    assert [(s["rows"][0]["offset"], s["rows"][0]["tokens"]) for s in steps_of(text)] == [
        (0, 512),
        (512, 188),
    ]


def test_a_checkpoint_holds_what_the_window_needs():
    text = "\n".join(
        [
            slot("new prompt, n_ctx_slot = 8192, n_keep = 0, task.n_tokens = 5403"),
            slot("n_past = 5302, slot.prompt.tokens.size() = 5411, seq_id = 1, pos_min = 4390, n_swa = 1024"),
            slot("Checking checkpoint with [3767, 4790] against 4278..."),
            slot("restored context checkpoint (pos_min = 3767, pos_max = 4790, n_tokens = 4791)"),
            slot("n_tokens = 4791, memory_seq_rm [4791, end)"),
            slot("prompt processing progress, n_tokens = 4891, batch.n_tokens = 100, progress = 0.905238"),
            slot("n_tokens = 4891, memory_seq_rm [4891, end)"),
            slot("prompt processing done, n_tokens = 5403, batch.n_tokens = 512"),
        ]
    )
    assert [(s["phase"], s["rows"][0].get("offset")) for s in steps_of(text)] == [
        ("adopt", None),
        ("chunk", 4791),
        ("chunk", 4891),
    ]
    assert codes(text) == []


def test_the_newest_form_of_a_head():
    lines = [
        "slot   operator(): id  0 | task 35089 | cached n_tokens = 0, memory_seq_rm [0, end)",
        "slot print_timing: id  0 | task 35089 | prompt processing, n_tokens =   3072, progress = 0.56",
        "slot print_timing: id  0 | task 35089 | prompt processing, n_tokens =   4426, progress = 0.81",
        "slot get_availabl: id  0 | task -1    |  - checking sim = 0.998 (5450/5459) > 0.100",
    ]
    steps = steps_of("\n".join(lines))
    assert [(s["rows"][0]["offset"], s["rows"][0]["tokens"]) for s in steps] == [(0, 3072), (3072, 1354)]


def test_layers_without_a_window_have_none():
    state = STATE.replace("n_swa = 1024", "n_swa = 1")
    text = "\n".join([PROMPT, state, slot("kv cache rm [2900, end)"), REST])
    assert "attention" not in steps_of(text)[-1]
    assert codes(text) == []


def test_slots_and_tasks_are_kept_apart():
    lines = []
    for ident, task in ((0, 3), (1, 4), (0, 5)):
        lines.append(slot("kv cache rm [0, end)", ident, task))
        lines.append(slot("prompt done, n_past = 90, n_tokens = 90", ident, task))
    assert [step["rows"][0]["seq"] for step in steps_of("\n".join(lines))] == ["task-1", "task-2", "task-3"]


def test_a_log_that_begins_in_the_middle_of_a_prompt():
    (step,) = steps_of(slot("prompt processing progress, n_past = 4096, n_tokens = 2048, progress = 0.5"))
    assert (step["phase"], step["rows"][0]["offset"]) == ("chunk", 2048)


@pytest.mark.parametrize(
    "line",
    [
        PROMPT,
        STATE,
        "srv  log_server_r: request: POST /v1/chat/completions 127.0.0.1 200",
        "slot launch_slot_: id  0 | task 12 | processing task",
        "slot release: id  0 | task 12 | stop processing: n_past = 812, truncated = 0",
        "the slot update_slots function is where n_past = 5 is set",
    ],
)
def test_lines_without_a_piece_make_no_trace(line):
    with pytest.raises(UnreadableError):
        imported(line)
