from __future__ import annotations

import pytest

from mlxdiag.errors import UnreadableError
from tests.traces.importers.reading import codes, gemma4, imported, report_on, steps_of

HEAD = (
    "(EngineCore_0 pid=4242) ERROR 09-14 08:00:01 [dump_input.py:76] "
    "Dumping scheduler output for model execution: "
)


def new(name, length, computed=0):
    return (
        f"NewRequestData(req_id={name},prompt_token_ids_len={length},mm_inputs=[],sampling_params="
        f"SamplingParams(n=1, stop=['my secret']),block_ids=([1, 2],),num_computed_tokens={computed},"
        "lora_request=None)"
    )


def dump(scheduled, new=(), cached=None, drafts=""):
    ids, computed = list((cached or {}).keys()), list((cached or {}).values())
    counts = ", ".join(f"{name}: {count}" for name, count in scheduled.items())
    return (
        f"{HEAD}SchedulerOutput(scheduled_new_reqs=[{', '.join(new)}], "
        f"scheduled_cached_reqs=CachedRequestData(req_ids={ids}, new_token_ids=[], new_block_ids=[], "
        f"num_computed_tokens={computed}), num_scheduled_tokens={{{counts}}}, "
        f"total_num_scheduled_tokens={sum(scheduled.values())}, scheduled_spec_decode_tokens={{{drafts}}})"
    )


def rows(text):
    """Every row with the phase of its step; rows of several tokens have a step of their own."""
    return [{**row, "phase": step["phase"]} for step in steps_of(text) for row in step["rows"]]


def test_a_request_that_goes_on():
    text = dump({"chatcmpl-a1": 160}, cached={"chatcmpl-a1": 2048})
    (step,) = steps_of(text)
    assert step["phase"] == "chunk"
    assert step["rows"] == [{"seq": "req-1", "offset": 2048, "tokens": 160, "scheduled": 160}]


def test_new_requests_begin_with_what_was_cached():
    text = dump({"a": 30, "b": 16}, new=[new("a", 30), new("b", 80, computed=64)])
    first, second = rows(text)
    assert (first["offset"], first["tokens"], first["total"], first["phase"]) == (0, 30, 30, "prefill")
    assert (second["offset"], second["tokens"], second["total"], second["phase"]) == (64, 16, 80, "chunk")


def test_the_older_form_of_one_object_a_request():
    text = (
        f"{HEAD}SchedulerOutput(scheduled_new_reqs=[], scheduled_cached_reqs=[CachedRequestData(req_id='b', "
        "resumed_from_preemption=False, new_token_ids=[9], num_computed_tokens=77)], "
        "num_scheduled_tokens={'b': 1}, total_num_scheduled_tokens=1)"
    )
    assert rows(text) == [{"seq": "req-1", "offset": 77, "tokens": 1, "scheduled": 1, "phase": "decode"}]


def test_the_newest_form_of_a_dump():
    text = (
        "> 2026-08-31T17:43:37.867962742Z stdout F (EngineCore pid=659) ERROR 08-31 17:43:37 "
        "[dump_input.py:79] Dumping scheduler output for model execution: SchedulerOutput("
        "scheduled_new_reqs=[], scheduled_cached_reqs=CachedRequestData(req_ids=['chatcmpl-a1-b2'],"
        "new_token_ids_lens=[],all_token_ids_lens={},new_block_ids=[None],num_computed_tokens=[29622],"
        "num_output_tokens=[2]), num_scheduled_tokens={chatcmpl-a1-b2: 1}, total_num_scheduled_tokens=1, "
        "scheduled_spec_decode_tokens={}, finished_req_ids=[])"
    )
    (step,) = steps_of(text)
    assert step["phase"] == "decode"
    assert step["rows"] == [{"seq": "req-1", "offset": 29622, "tokens": 1, "scheduled": 1}]


def test_drafted_tokens_make_a_verify():
    text = dump({"a": 4}, cached={"a": 100}, drafts="a: [11, 12, 13]")
    (step,) = steps_of(text)
    assert (step["phase"], step["rows"][0]["drafted"]) == ("verify", 3)


def test_a_dump_that_was_wrapped():
    text = dump({"a": 4, "b": 1}, cached={"a": 100, "b": 7}).replace(", ", ",\n ")
    assert [(row["offset"], row["tokens"]) for row in rows(text)] == [(100, 4), (7, 1)]


def test_printed_outputs_are_token_streams():
    text = (
        "RequestOutput(request_id=0, prompt='my secret', prompt_token_ids=[5, 6, 7], outputs=["
        "CompletionOutput(index=0, text='', token_ids=[0, 0, 0, 0, 0, 0, 0, 0, 0, 0], "
        "cumulative_logprob=nan, logprobs=None, finish_reason=length, stop_reason=None)], finished=True)"
    )
    (step,) = steps_of(text)
    assert step["rows"][0]["classes"] == "0" * 10
    assert step["rows"][0]["logprob"] == "nan"
    finding = report_on(text).findings[0]
    assert finding.code == "MD603"
    assert any("MD401" in cause for cause in finding.cause)
    assert steps_of(text, model=gemma4(512))[0]["rows"][0]["classes"] in ("0" * 10, "p" * 10)


def test_a_healthy_output_has_no_finding():
    text = (
        "RequestOutput(request_id=0, prompt_token_ids=[5], outputs=[CompletionOutput(index=0, text='hello', "
        "token_ids=[31, 7, 22], cumulative_logprob=-1.25, finish_reason=stop)], finished=True)"
    )
    (step,) = steps_of(text)
    assert step["rows"][0] == {
        "seq": "answer-1", "emitted": 3, "classes": "ttt", "ids": [0, 1, 2], "finish": "eos",
    }  # fmt: skip
    assert codes(text) == []


def test_names_of_requests_and_settings_stay_out():
    from mlxdiag.traces.encode import entry_line

    found = imported(dump({"chatcmpl-a1": 30}, new=[new("chatcmpl-a1", 30)]))
    written = b"".join(entry_line(entry) for entry in found.trace.entries)
    assert b"chatcmpl" not in written
    assert b"secret" not in written


@pytest.mark.parametrize(
    "line",
    [
        "(EngineCore_0 pid=42) INFO 09-14 08:00:02 [scheduler.py:463] num_new_tokens=8192 token_budget=8192",
        "INFO 09-14 08:00:02 [loggers.py:118] Engine 000: Avg prompt throughput: 90.1 tokens/s",
        HEAD + "SchedulerOutput(scheduled_new_reqs=[], num_scheduled_tokens={}, total=0)",
    ],
)
def test_lines_without_a_step_make_no_trace(line):
    with pytest.raises(UnreadableError, match="vllm"):
        imported(line)
